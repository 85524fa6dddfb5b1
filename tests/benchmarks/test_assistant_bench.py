"""The benchmark of the assistant: what it counts, what it refuses to count, and that nothing is left of it."""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from dataclasses import replace

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import bench as command
from benchmarks.assistant import calls, files, fixture, suite, threads
from benchmarks.assistant import concurrent_calls as waiting
from benchmarks.assistant.concurrent_calls import Round
from benchmarks.assistant.files import Trip
from benchmarks.assistant.fixture import Asking, Heard, Model, Place
from benchmarks.assistant.threads import Strays, bent, growth_rows, strays_of
from benchmarks.benchmark import Bench, Sizes
from benchmarks.lean_client import BenchFault
from benchmarks.processes import descendants
from tests.benchmarks.conftest import nothing_left
from toolyard.core.tokens import has_tokenizer

TINY = Sizes(rounds=1, tree_files=4, calls=8, starts=1, loops=2, turns=3, threads=3, source_tokens=20_000)
ROUND = Round(1.1, 0.5, 9.0)
TRIP = Trip(2.0, 30.0, 0.5, 900_000, 7)
needs_a_tokenizer = pytest.mark.skipif(not has_tokenizer(), reason="there is no tokenizer")
SILENT = "import sys; sys.stdin.read()"
QUESTION = {"contents": [{"role": "user", "parts": [{"text": "canary-001-00-aa and canary-001-01-bb"}]}]}


def measured(settings, only):
    with nothing_left(settings):
        rows = suite.run(TINY, settings, lambda _: None, {only}).rows
    assert all(row.ours is not None for row in rows), rows
    return {row.name: row for row in rows}


def test_a_prompt_that_grows_evenly_is_on_a_straight_line_and_one_that_doubles_is_not():
    assert bent([100, 110, 120, 130]) == pytest.approx(0)
    assert bent([100, 200, 400, 800]) > 20
    assert bent([7]) == 0


def test_a_file_that_is_in_a_prompt_twice_misses_the_target():
    once = f"{threads._MARK}\nwords and words"
    rows = {row.name: row for row in growth_rows([10, 20, 30], [[once], [once, "more"], [once, "more", "more"]])}
    assert [name for name in rows if name.startswith("prompt of turn")] == [
        *(f"prompt of turn {turn}" for turn in (1, 2, 3)),
        "prompt of turn 3 beside turn 1",
    ]
    assert rows["prompt of turn 2"].note == "20 bytes"
    assert rows["copies of the file in one prompt"].met is True
    twice = {row.name: row for row in growth_rows([10, 20], [[once], [once, once]])}
    assert twice["copies of the file in one prompt"].met is False


def test_a_canary_of_another_thread_is_a_leak_and_one_that_is_not_there_any_more_is_lost():
    first, other, second = "canary-001-00-aa", "canary-002-00-bb", "canary-001-01-cc"
    assert strays_of([first, other, f"{first} I heard {first} {second}"]) == Strays(leaked=0, lost=0)
    assert strays_of([first, f"{first} {other}"]) == Strays(leaked=1, lost=0)
    assert strays_of([first, other, second]) == Strays(leaked=0, lost=1)


def test_what_is_added_to_a_call_is_what_the_same_request_alone_does_not_take():
    warm, processor = {"ours": 12.0, "bare": 5.0}, {"ours": 9.0, "bare": 6.0}
    rows = calls.overhead_rows(warm, processor, {"ours": 3000.0, "bare": 2000.0}, 900.0)
    added, *_, cold = rows
    assert added.ours == 7.0
    assert [row.ratio for row in rows] == [None, 2.4, 1.5, 1.5]
    assert cold.note.startswith("900 ms of it are the call")


def test_a_slow_wall_and_a_slow_ping_miss_their_targets_and_the_start_has_none_for_the_wall():
    good = waiting.rows_of([ROUND], [replace(ROUND, wall=4.0)], [ROUND])
    assert [row.met for row in good] == [True, True, None, True]
    assert good[1].peer == 9.0
    late = replace(ROUND, wall=1.6, longest=51.0)
    assert [row.met for row in waiting.rows_of([late], [late], [ROUND])] == [False, False, None, False]


def test_the_longest_ping_of_a_request_with_files_is_held_to_the_target():
    has, ping = files.rows_of("analyze", 1_000_000, [TRIP, replace(TRIP, seconds=4.0, longest=80.0)])
    assert has.name == "analyze of 50 files, 1M tokens: until the model has it"
    assert (has.ours, ping.ours, ping.met) == (3.0, 55.0, False)
    assert "the longest of all 80.0 ms" in ping.note


def test_the_files_have_about_as_many_tokens_as_were_asked_for(tmp_path, settings):
    place = Place.of(Bench(TINY, str(tmp_path), settings, lambda _: None), "files")
    names, tokens = files.written(place, 150_000)
    assert len(names) == files.FILES
    assert sorted(os.listdir(place.project)) == names
    assert 150_000 <= tokens < 250_000


def test_the_model_keeps_what_it_is_asked_and_says_the_last_canary_back(tmp_path):
    began = time.monotonic()
    with Model("I heard", keep=str(tmp_path)) as model:
        address = f"{model.address}/v1beta/models/any:generateContent"
        with urllib.request.urlopen(address, json.dumps(QUESTION).encode(), timeout=10) as answer:
            said = json.load(answer)["candidates"][0]["content"]["parts"][0]["text"]
        (sent,) = model.requests()
    assert said == "I heard canary-001-01-bb"
    assert json.loads(sent.body) == QUESTION
    assert threads.texts_of(sent.body)[-1] == "canary-001-00-aa and canary-001-01-bb"
    assert began < sent.at < time.monotonic()


def test_a_server_that_says_nothing_ends_the_measurement_and_its_process(monkeypatch):
    before = descendants(os.getpid())
    monkeypatch.setattr(fixture.Asking.hear, "__defaults__", (0.05,))
    with pytest.raises(BenchFault, match="said nothing for"):
        Asking((sys.executable, "-c", SILENT), {})
    assert descendants(os.getpid()) <= before


def test_a_refusal_is_no_figure():
    with pytest.raises(BenchFault, match="too often"):
        _ = Heard(0.0, {"id": 1, "error": {"code": -32000, "message": "too often"}}).fields


def test_the_command_names_its_measures():
    help_text = CliRunner().invoke(command, ["assistant", "--help"]).output
    assert "start, tokens, overhead, waiting, growth, threads, files" in " ".join(help_text.split())


@pytest.mark.slow
def test_the_start_is_measured_beside_both_levels_of_the_sdk(settings):
    rows = suite.run(TINY, settings, lambda _: None, {"start"}).rows
    assert [row.target for row in rows] == ["≤ 1.5x", "≤ 1.5x"]
    assert all(row.ours > 0 and row.peer > 0 for row in rows)


@pytest.mark.slow
@needs_a_tokenizer
def test_the_tools_are_counted(settings):
    rows = suite.run(TINY, settings, lambda _: None, {"tokens"}).rows
    assert [row.note for row in rows] == ["o200k_base", "cl100k_base"]
    assert all(row.met and row.ours > 500 for row in rows)


@pytest.mark.slow
def test_what_a_call_adds_is_measured_beside_the_bare_request(settings):
    rows = measured(settings, "overhead")
    call = rows["a chat call, warm"]
    assert rows["added to a chat call"].ours == pytest.approx(call.ours - call.peer)
    assert min(call.ours, call.peer) > 0


@pytest.mark.slow
def test_calls_at_once_are_measured_while_the_server_is_pinged(settings):
    rows = measured(settings, "waiting")
    assert rows["4 calls at once, warm"].ours >= 1.0  # the model takes a second for each answer
    assert rows["longest ping meanwhile, of 4 calls at once, warm"].ours > 0


@pytest.mark.slow
def test_the_growth_of_a_thread_is_measured_at_its_model(settings):
    rows = measured(settings, "growth")
    assert rows["prompt of turn 3"].ours > rows["prompt of turn 1"].ours > 1_000
    assert rows["copies of the file in one prompt"].ours == 1


@pytest.mark.slow
def test_threads_with_canaries_leak_nothing(settings):
    rows = measured(settings, "threads")
    assert rows["3 threads: canaries in another thread"].ours == 0
    assert rows["3 threads: canaries lost"].ours == 0
    assert rows["3 threads: memory after"].ours > 30


@pytest.mark.slow
def test_files_are_timed_on_their_way_to_the_model(settings):
    rows = measured(settings, "files")
    assert len(rows) == 4
    assert all(row.ours > 0 for row in rows.values())
