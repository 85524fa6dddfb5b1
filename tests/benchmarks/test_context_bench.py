"""The benchmark of teams: what it counts, what it refuses to count, and that nothing is left of it."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import islice

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import bench as command
from benchmarks.benchmark import Sizes
from benchmarks.context import many_agents, suite, tokens, turn_overhead
from benchmarks.context.fixture import Heard, ModelProgram, Team
from benchmarks.context.many_agents import Figures
from benchmarks.context.tokens import Seen
from benchmarks.lean_client import BenchFault
from tests.benchmarks.conftest import nothing_left
from tests.support.universe import universe
from toolyard.core.tokens import has_tokenizer
from toolyard.team.events import AgentFailed, AgentStarted, Answered, RoundStarted, Used

TINY = Sizes(rounds=1, tree_files=4, calls=2, starts=1, loops=2, servers=3, universe=1, turns=2, agents=2)
FIGURES = Figures(1.0, 2.0, 0.5, 3.0, 8, 100.0, 9, 40, 0, 0, 2, 2)
needs_a_tokenizer = pytest.mark.skipif(not has_tokenizer(), reason="there is no tokenizer")


def measured(settings, only):
    with nothing_left(settings):
        rows = suite.run(TINY, settings, lambda _: None, {only}).rows
    return {row.name: row for row in rows}


@needs_a_tokenizer
def test_tokens_are_counted_in_both_modes_and_only_one_grows(settings):
    rows = measured(settings, "tokens")
    *constant, without, with_one = rows.values()
    assert [row.target for row in constant] == ["≤ 3500 tokens", "≤ 800 tokens"]
    assert all(row.met and row.ours > 100 for row in constant)
    assert "the same with 0, 1 servers" in constant[0].note
    assert without.name == "context_based: tools and prompt, 0 servers"
    assert with_one.ours > without.ours


@needs_a_tokenizer
def test_a_prompt_that_grows_with_the_servers_is_no_figure(settings, monkeypatch):
    def growing(folder, mode, listings, settings):
        return Seen(9, 700, 500 + len(listings))

    monkeypatch.setattr(tokens, "seen_with", growing)
    with pytest.raises(BenchFault, match="does not see the same for any number of servers"):
        measured(settings, "tokens")


def test_servers_come_again_under_other_names_when_there_are_no_more():
    captured = len(universe())
    names = [listing.server for listing in islice(tokens.servers(), captured + 2)]
    assert len(set(names)) == captured + 2
    assert {*names[:captured]} == {listing.server for listing in universe()}
    assert names[captured:] == [f"{names[0]}-2", f"{names[1]}-2"]


def test_what_is_added_to_a_turn_is_the_difference_by_all_turns_of_all_agents():
    added, processor, seen = turn_overhead.rows_of({"ours": 180.0, "bare": 100.0}, {"ours": 6.0, "bare": 4.0})
    assert (added.ours, added.target, added.met) == (10.0, "≤ 20 ms", True)
    assert (processor.ratio, seen.ratio) == (1.5, 1.8)
    assert turn_overhead.rows_of({"ours": 300.0, "bare": 100.0}, {"ours": 6.0, "bare": 4.0})[0].met is False


def test_what_is_left_of_a_large_team_misses_the_target():
    rows = {row.name: row for row in many_agents.rows_of(2, FIGURES, left=0)}
    assert rows["2 agents: the whole run"].ours == 3.5
    assert rows["2 agents: turns"].ours == 4.0
    assert rows["2 agents: left over"].met is True
    worse = many_agents.rows_of(2, replace(FIGURES, threads_left=1, answers=1, shared=0), left=2)
    missed = {row.name: row.ours for row in worse if row.met is False}
    assert missed == {
        "2 agents: without an answer": 1,
        "2 agents: whose files are not shared": 2,
        "2 agents: left over": 3,
    }


def test_a_turn_is_timed_from_the_start_of_its_agent_to_its_answer(monkeypatch):
    clock = iter((0.0, 1.0, 1.5, 2.0, 3.0))
    monkeypatch.setattr("benchmarks.context.fixture.time.perf_counter", lambda: next(clock))
    heard = Heard()
    heard(RoundStarted(round=1, agents=("a",)))
    heard(AgentStarted(agent="a", round=1))
    heard(Used(agent="a", round=1, spent=None, turns=1))
    heard(Used(agent="a", round=1, spent=None, turns=4))
    heard(Answered(agent="a", round=1, text="done"))
    assert heard.milliseconds_a_turn == 500.0


def test_a_team_in_which_an_agent_fails_is_no_figure(tmp_path, settings, monkeypatch):
    heard = Heard()

    async def failing(run):
        heard(AgentFailed(agent="a000", why="no key"))

    monkeypatch.setattr("benchmarks.context.fixture.TeamRun.go", failing)
    with pytest.raises(BenchFault, match=r"1 of 1 agents did not answer\. a000 failed: no key"):
        Team.of(str(tmp_path), 1, settings, {"GEMINI_API_KEY": "a-key"}).run(heard)


@pytest.mark.slow
def test_agents_that_call_the_same_servers_take_one_process_for_each(settings):
    processes, failed = measured(settings, "servers").values()
    assert (processes.ours, processes.target, processes.met) == (3, "≤ 3 processes", True)
    assert (failed.ours, failed.note) == (0, "of 6")


@pytest.mark.slow
def test_a_whole_team_works_against_the_model_program_and_leaves_nothing(tmp_path, settings):
    steps = [{"call": "Write", "arguments": {"file_path": "part0.txt", "content": "x"}}]
    before = threading.active_count()
    with ModelProgram(str(tmp_path), steps) as model:
        figures = many_agents.measured(Team.of(str(tmp_path), 2, settings, model.access))
    assert (figures.answers, figures.shared, figures.turns) == (2, 2, 4)
    assert (figures.threads_left, figures.descriptors_left) == (0, 0)
    assert threading.active_count() == before


@pytest.mark.slow
def test_turns_are_measured_beside_the_bare_requests_of_the_same_turns(settings):
    rows = measured(settings, "turns")
    assert [row.target for row in rows.values()] == ["≤ 20 ms", "", ""]
    assert all(row.peer > 0 for row in [*rows.values()][1:])


@pytest.mark.slow
def test_a_large_team_is_measured_in_a_process_of_its_own(settings):
    rows = measured(settings, "agents")
    assert rows["2 agents: without an answer"].ours == 0
    assert rows["2 agents: left over"].met is True
    assert rows["2 agents: memory"].ours > 10


def test_the_command_names_its_measures():
    help_text = CliRunner().invoke(command, ["context", "--help"]).output
    assert "tokens, turns, agents" in " ".join(help_text.split())
