"""Runs of one agent and of several, to their end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toolyard.core.errors import ConfigError, SystemFault, ToolError
from toolyard.sandbox import probe
from toolyard.sandbox.probe import TierReport
from toolyard.team.events import (
    AgentFailed,
    AgentStarted,
    Answered,
    EndReason,
    FileOperated,
    FilesChanged,
    Notice,
    RoundStarted,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolCalled,
    ToolReturned,
    Used,
    Voted,
)
from toolyard.testing.mock_model import FOREVER, Call, Fail, Say, Turn, Usage

WRITES = Call("Write", {"file_path": "plan.md", "content": "# Plan\n"})
KINDS = pytest.mark.parametrize("kind", ["gemini", "openai", "claude"])


@KINDS
def test_one_agent_works_on_its_files_and_answers(team_of, kind: str) -> None:
    team = team_of(a=[WRITES, Say("The plan is written.")])
    team.kinds = (kind,)

    finished = team.run(["a"])

    assert (finished.ended, finished.winner, finished.text) == (EndReason.ANSWERED, "a", "The plan is written.")
    assert (team.workspace("a") / "plan.md").read_text() == "# Plan\n"
    assert [each.ok for each in team.heard(ToolReturned)] == [True]
    assert team.heard(Answered)[0].snapshot == finished.snapshot != ""
    assert team.heard(FilesChanged)[-1].paths == ("plan.md",)


def test_a_run_is_told_from_its_start_to_one_last_event(team_of) -> None:
    team = team_of(a=[WRITES, Say("It is done.")])

    finished = team.run(["a"], "Write a plan.")

    started = team.heard(RunStarted)[0]
    assert (started.task, started.run, [each.id for each in started.agents]) == ("Write a plan.", finished.run, ["a"])
    assert team.events[-1] == finished
    assert len(team.heard(RunFinished)) == 1
    assert "".join(each.text for each in team.heard(TextDelta)) == "It is done."
    assert [each.tool for each in team.heard(ToolCalled)] == ["Write"]
    assert team.heard(Used)[-1].turns == 2


def test_an_agent_is_offered_the_eight_tools_in_its_own_folder(team_of) -> None:
    team = team_of(a=Say("Fine."))

    team.run(["a"])

    eight = {"Read", "Write", "Edit", "MultiEdit", "Bash", "Grep", "Glob", "LS"}
    assert set(team.server.requests[0].tools) >= eight
    assert "Do it." in team.server.requests[0].user_texts[0]


def test_a_team_shares_files_votes_and_agrees(team_of) -> None:
    team = team_of(
        a=[WRITES, Say("My plan is in plan.md."), Say("VOTE: a\nIt has a file.")],
        b=[Say("I have no plan."), Call("Read", {"file_path": "shared/a/plan.md"}), Say("I read it.\n\nVOTE: a")],
        c=[Say("Nor have I."), Say("**VOTE:** a")],
    )

    finished = team.run(["a", "b", "c"])

    assert (finished.ended, finished.winner, finished.rounds) == (EndReason.CONSENSUS, "a", 2)
    assert finished.votes == {"a": "a", "b": "a", "c": "a"}
    assert finished.why == "All agents have voted, 3 of 3 for a."
    assert "# Plan" in next(each.text for each in team.heard(ToolReturned, "b"))
    assert [each.round for each in team.heard(RoundStarted)] == [1, 2]


def test_a_better_answer_is_put_to_the_vote_again(team_of) -> None:
    team = team_of(
        a=[Say("One."), Say("VOTE: a"), Say("VOTE: b")],
        b=[Say("Two."), Say("Two, and better."), Say("VOTE: b")],
    )

    finished = team.run(["a", "b"])

    assert (finished.ended, finished.winner, finished.text) == (EndReason.CONSENSUS, "b", "Two, and better.")
    assert finished.rounds == 3


def test_agents_are_shown_what_the_others_answered(team_of) -> None:
    team = team_of(a=[Say("The sea is blue."), Say("VOTE: a")], b=[Say("The sea is green."), Say("VOTE: a")])

    team.run(["a", "b"])

    asked = [request.user_texts[-1] for request in team.server.requests if len(request.user_texts) > 1]
    assert len(asked) == 2
    assert all("The sea is blue." in text and "The sea is green." in text for text in asked)


def test_rounds_end_a_team_that_does_not_agree(team_of) -> None:
    team = team_of(a=[Say("One."), Say("Other one."), Say("VOTE: b")], b=[Say("Two."), Say("More."), Say("VOTE: a")])
    team.more = {"orchestrator": {"limits": {"rounds": 2}}}

    finished = team.run(["a", "b"])

    assert (finished.ended, finished.winner, finished.text) == (EndReason.ROUNDS, "a", "Other one.")
    assert "2 rounds" in finished.why


def test_votes_of_an_earlier_round_are_not_denied_at_the_end(team_of) -> None:
    team = team_of(
        a=[Say("One."), Say("VOTE: b"), Say("One again.")], b=[Say("Two."), Say("More."), Say("More yet.")]
    )
    team.more = {"orchestrator": {"limits": {"rounds": 3}}}

    finished = team.run(["a", "b"])

    assert finished.ended is EndReason.ROUNDS
    assert "No agent voted in the last round; the answer is that of a" in finished.why


def test_a_vote_for_nobody_is_told_and_does_not_count(team_of) -> None:
    team = team_of(a=[Say("One."), Say("VOTE: zed")], b=[Say("Two."), Say("VOTE: b")])
    team.more = {"orchestrator": {"limits": {"rounds": 2}}}

    finished = team.run(["a", "b"])

    assert [each.choice for each in team.heard(Voted, "a")] == [""]
    assert finished.winner == "b"
    assert finished.votes == {"b": "b"}


def test_one_agent_that_fails_is_told_and_the_others_go_on(team_of) -> None:
    team = team_of(a=Fail(400, message="no such thing", times=FOREVER), b=[Say("Two."), Say("VOTE: b")])

    finished = team.run(["a", "b"])

    failed = team.heard(AgentFailed)
    assert [(each.agent, each.round) for each in failed] == [("a", 1)]
    assert (finished.winner, finished.text) == ("b", "Two.")
    assert finished.has_answer


def test_a_run_in_which_everybody_fails_says_so(team_of) -> None:
    team = team_of(a=Fail(401, times=FOREVER))
    team.kinds = ("openai",)

    finished = team.run(["a"])

    assert (finished.ended, finished.has_answer) == (EndReason.FAILED, False)
    assert "OPENAI_API_KEY" in str(team.heard(AgentFailed)[0])
    assert "openai-key" not in "".join(map(str, team.events))


def test_a_crash_of_ours_in_one_agent_costs_the_others_nothing(team_of, monkeypatch) -> None:
    from toolyard.team.api_worker import ApiWorker

    work = ApiWorker.work

    async def crashing(self, prompt: str, number: int):
        if self.info.id == "a":
            raise ZeroDivisionError("oops")
        return await work(self, prompt, number)

    monkeypatch.setattr(ApiWorker, "work", crashing)
    team = team_of(b=Say("Two."))

    finished = team.run(["a", "b"])

    assert (finished.winner, finished.ended) == ("b", EndReason.ANSWERED)
    assert "ZeroDivisionError" in team.heard(AgentFailed)[0].why


def test_a_missing_key_names_its_variable_before_anything_begins(team_of) -> None:
    team = team_of(a=Say("Fine."))
    settings = type(team.settings()).from_environment({"HOME": str(team.folder)})

    with pytest.raises(ConfigError, match="GEMINI_API_KEY"):
        team.run(["a"], settings=settings)

    assert team.events == []
    assert team.server.requests == []


def test_tokens_end_a_run_with_what_there_is(team_of) -> None:
    costly = Turn(text="", calls=(Call("LS", {"path": "."}),), usage=Usage(900, 200))
    team = team_of(
        a=[Turn(text="One.", usage=Usage(10, 10)), costly, costly], b=[Turn(text="Two.", usage=Usage(1, 1))]
    )
    team.more = {"orchestrator": {"limits": {"tokens": 1000}}}

    finished = team.run(["a", "b"])

    assert (finished.ended, finished.winner) == (EndReason.TOKENS, "a")
    assert finished.spent.total >= 1000
    assert "`orchestrator.limits.tokens`" in finished.why


def test_money_ends_a_run(team_of) -> None:
    costly = Turn(text="", calls=(Call("LS", {"path": "."}),), usage=Usage(1_000_000, 1000))
    team = team_of(**{"claude-sonnet-4-5": [costly, costly, costly, costly, Say("Never said.")]})
    team.kinds = ("claude",)
    team.more = {"orchestrator": {"limits": {"cost": 3.5}}}

    finished = team.run(["claude-sonnet-4-5"])

    assert finished.ended is EndReason.COST
    assert finished.spent.cost is not None
    assert 3.5 <= finished.spent.cost < 14.0
    assert not finished.has_answer


def test_time_ends_a_run(team_of) -> None:
    from toolyard.testing.mock_model import Hang

    team = team_of(a=Say("One."), b=Hang())
    team.more = {"orchestrator": {"limits": {"seconds": 1.0}}}

    finished = team.run(["a", "b"])

    assert (finished.ended, finished.winner) == (EndReason.TIME, "a")
    assert finished.seconds < 10


def test_a_second_run_in_the_same_folder_is_refused_and_told_who_is_there(team_of) -> None:
    from toolyard.team.run_lock import RunLocks

    team = team_of(a=Say("Fine."))
    root = team.folder / "toolyard_workspace"
    state = team.settings().state_home

    with RunLocks(state, [str(root)], "1234abcd"), pytest.raises(SystemFault, match=r"Run 1234abcd .* is using"):
        team.run(["a"])

    assert team.run(["a"]).ended is EndReason.ANSWERED


def test_an_agent_without_cwd_and_mode_has_no_files(team_of) -> None:
    team = team_of(a=[Call("Read", {"file_path": "x"}), Say("I cannot read.")])
    team.backend = {"permission_mode": None}

    finished = team.run(["a"])

    assert list(team.server.requests[0].tools) == []
    assert [each.ok for each in team.heard(ToolReturned)] == [False]
    assert (finished.text, finished.snapshot) == ("I cannot read.", "")


def test_cwd_is_made_beside_the_file_and_kept(team_of) -> None:
    team = team_of(a=[WRITES, Say("Done.")])
    team.backend = {"cwd": "work"}
    (team.folder / "work").mkdir()
    (team.folder / "work" / "mine.txt").write_text("keep me")

    team.run(["a"])

    assert {each.name for each in (team.folder / "work").iterdir()} >= {"mine.txt", "plan.md"}


def test_agents_in_one_folder_are_each_named_for_their_own_files(team_of) -> None:
    def writing(name: str) -> list[Call | Say]:
        return [Call("Write", {"file_path": f"{name}.md", "content": name}), Say("Done."), Say("VOTE: a")]

    team = team_of(a=writing("a"), b=writing("b"))
    team.backend = {"cwd": "work"}

    team.run(["a", "b"])

    for name in ("a", "b"):
        assert {path for each in team.heard(FilesChanged, name) for path in each.paths} == {f"{name}.md"}


def test_a_fresh_folder_is_emptied_once_and_not_for_later_rounds(team_of) -> None:
    team = team_of(a=[WRITES, Say("One."), Say("VOTE: a")], b=[Say("Two."), Say("VOTE: a")])
    team.backend = {"fresh": True}
    (team.workspace("a")).mkdir(parents=True)
    (team.workspace("a") / "old.txt").write_text("old")

    finished = team.run(["a", "b"])

    assert finished.ended is EndReason.CONSENSUS
    names = {each.name for each in team.workspace("a").iterdir()}
    assert "plan.md" in names
    assert "old.txt" not in names


def test_a_run_that_is_over_is_not_resumed(team_of) -> None:
    team = team_of(a=Say("Fine."))
    finished = team.run(["a"])

    with pytest.raises(ToolError, match="is complete"):
        team.run(["a"], resume=finished.run)


def test_agents_start_together(team_of) -> None:
    team = team_of(a=Say("One."), b=Say("Two."))
    team.more = {"orchestrator": {"limits": {"rounds": 1}}}

    team.run(["a", "b"])

    order = [type(each).__name__ for each in team.events if isinstance(each, AgentStarted | Answered)]
    assert order[:2] == ["AgentStarted", "AgentStarted"]


def test_code_that_raises_is_told_as_failed_and_shown_to_the_model_as_it_is(team_of) -> None:
    team = team_of(a=[Call("execute_python", {"code": "1 / 0"}), Say("I see.")])
    team.more = {"toolyard": {"execution_mode": "filesystem_first"}}

    team.run(["a"])

    assert [each.ok for each in team.heard(ToolReturned)] == [False]
    assert "ZeroDivisionError" in team.server.requests[-1].results[-1]


def test_what_code_does_to_files_is_told_as_operations_of_its_agent(team_of) -> None:
    code = "from servers.filesystem import write_file\nawait write_file(path='made.txt', content='by code')\n"
    team = team_of(a=[Call("execute_python", {"code": code}), Say("I see.")])
    team.more = {"toolyard": {"execution_mode": "filesystem_first"}}

    team.run(["a"])

    made = [each for each in team.heard(FileOperated) if each.from_code]
    assert [(each.agent, each.tool, each.outcome, each.changes_files) for each in made] == [
        ("a", "write_file", "ok", True)
    ]
    assert [path.rpartition("/")[2] for path in made[0].paths] == ["made.txt"]
    assert [each.tool for each in team.heard(ToolReturned)] == ["execute_python"]


def test_nothing_is_made_where_a_key_is_missing(team_of) -> None:
    team = team_of(a=Say("Fine."))
    settings = type(team.settings()).from_environment({"HOME": str(team.folder)})

    with pytest.raises(ConfigError):
        team.run(["a"], settings=settings)

    assert {each.name for each in team.folder.iterdir()} <= {"team.yaml"}


def test_a_limit_of_cost_that_limits_nothing_is_told(team_of) -> None:
    team = team_of(a=Say("Done."))
    team.more = {"orchestrator": {"limits": {"cost": 1.0}}}

    team.run(["a"])

    assert [each.text for each in team.heard(Notice)] == [
        "The price of a is unknown, so `cost` does not limit it; check the model's name"
    ]


@pytest.mark.parametrize("execution_mode", ["context_based", "filesystem_first"])
def test_a_run_announces_that_commands_have_no_sandbox(team_of, execution_mode: str) -> None:
    team = team_of(a=Say("Done."), b=Say("Done."))
    team.backend = {"permission_mode": "bypassPermissions"}
    team.more = {"toolyard": {"execution_mode": execution_mode}}

    team.run(["a", "b"])

    assert [each.text for each in team.heard(Notice)] == [
        "Commands of a and b: Not sandboxed: bypassPermissions runs commands as the user."
    ]


def test_a_run_with_every_tool_in_context_announces_that_commands_will_be_refused(
    team_of, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = team_of(a=Say("Done."))
    monkeypatch.setattr(
        probe, "probe_tier", lambda tier, means: TierReport(tier, is_available=False, reason="It is broken.")
    )

    team.run(["a"])

    (notice,) = team.heard(Notice)
    assert notice.text.startswith("Commands and code of a will be refused: ")
    assert "It is broken" in notice.text


@pytest.mark.parametrize("execution_mode", ["context_based", "filesystem_first"])
def test_a_run_without_the_sandbox_that_is_asked_for_by_name_is_refused(team_of, execution_mode: str) -> None:
    team = team_of(a=Say("Done."))
    team.more = {"toolyard": {"code_execution": {"mode": "docker"}, "execution_mode": execution_mode}}
    settings = replace(team.settings(), container_client={"DOCKER_HOST": "unix:///nonexistent"})

    with pytest.raises(ConfigError, match="docker") as refused:
        team.run(["a"], settings=settings)

    assert "`code_execution: {enabled: false}` with `execution_mode: context_based`" in refused.value.hint
    assert team.events == []


def test_a_run_that_goes_without_commands_needs_no_sandbox_and_refuses_them_plainly(team_of) -> None:
    team = team_of(a=[Call("Bash", {"command": "id"}), Say("Done.")])
    team.more = {"toolyard": {"code_execution": {"mode": "docker", "enabled": False}}}
    settings = replace(team.settings(), container_client={"DOCKER_HOST": "unix:///nonexistent"})

    assert team.run(["a"], settings=settings).ended is EndReason.ANSWERED

    (result,) = team.heard(ToolReturned)
    assert "Commands and code are switched off" in result.text


def test_a_run_whose_commands_are_sandboxed_or_switched_off_announces_nothing(team_of) -> None:
    team = team_of(a=Say("Done."))
    team.run(["a"])
    team.more = {"toolyard": {"code_execution": {"enabled": False}}}
    team.backend = {"permission_mode": "bypassPermissions"}
    team.run(["a"])
    assert team.heard(Notice) == []
