"""A run in lines: for pipes, for programs, and hardly at all."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.team import scripted_events as scripted
from toolyard.cli.run.displays import display_for
from toolyard.cli.run.streams import OutputStreams
from toolyard.cli.run.text_display import SimpleDisplay
from toolyard.team.events import Answered, EndReason, TextDelta, TextTakenBack, Waiting, as_json

ROOT = Path(__file__).resolve().parents[2]
ADA = {"agent": "ada", "round": 1}
NO_ANSWER = {"winner": "", "text": "", "votes": {}}


def shown(kind, capsys, events, **options):
    display = display_for(kind, **options)
    for event in events:
        display.handle_event(event)
    display.close()
    return capsys.readouterr()


def test_one_line_for_each_thing_that_happens_and_the_answer_alone_on_standard_output(capsys):
    got = shown("simple", capsys, scripted.whole_run())
    assert got.out == scripted.finished().text + "\n"
    assert got.err.split("\n") == [
        "run  r7 starts: Make the shop's prices add up, and show that they do.",
        "run  ada: gemini · gemini-2.5-flash · /work/ada",
        "run  bob: openai · gpt-5-mini · /work/bob",
        "run  at most 4 rounds, 60 min 0 s, 200,000 tokens, $2.00",
        "run  round 1",
        "bob  … waiting 12 s: The model is busy (429).",
        "ada  | I will look at the shop.",
        "ada  |",
        "ada  | Then I mend it.",
        "ada  ✓ Read   shop.py  1 line  12 ms",
        "ada  ✓ Edit   shop.py  +1 -1  20 ms",
        "ada  ± shop.py  snapshot 0d3c457c96a4",
        "bob  ✗ Read   /etc/shadow  4 ms",
        "bob      It is outside the workspace.",
        "bob  ~ the conversation was shortened: 90k to 30k tokens",
        "bob  | I found nothing to mend.",
        "bob  ★ answered",
        "ada  | Prices are summed in cents.",
        "ada  ★ answered  snapshot 0d3c457c96a4",
        "run  round 2",
        "run  ! Prices of gpt-5-mini are not known.",
        "ada  → voted for itself: It mends the cause.",
        "bob  → voted for ada: Mine changed nothing.",
        "",
        "✓ Consensus  Every agent voted for ada's answer.",
        "  2 rounds · 1 min 36 s · 43k tokens (12k cached) · $0.05",
        "  ★ ada  won with 2 votes, voted for itself, 1 file changed · 32k tokens (10k cached) · $0.05",
        "  · bob  voted for ada · 11k tokens (2.0k cached) · $0.0050",
        "  Files   1 file, snapshot 0d3c457c96a4",
        "  in      /work/ada",
        "    ± shop.py",
        "  ! Prices of gpt-5-mini are not known.",
        "  Report  /state/runs/r7/report.html",
        "",
    ]


@pytest.mark.parametrize("kind", ["rich_terminal", "textual_terminal"])
def test_panels_are_for_terminals_only_whatever_a_variable_says(capsys, monkeypatch, kind):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    assert isinstance(display_for(kind), SimpleDisplay)
    assert "\x1b" not in shown(kind, capsys, scripted.whole_run()).err


def test_text_that_is_taken_back_is_never_printed(capsys):
    events = [
        scripted.started("ada"),
        TextDelta(text="wrong words", **ADA),
        TextTakenBack(**ADA),
        Waiting(seconds=1, why="cut off", **ADA),
        TextDelta(text="right words", **ADA),
        Answered(text="right words", **ADA),
    ]
    told = shown("simple", capsys, events).err
    assert "wrong" not in told
    assert told.count("right words") == 1


def test_an_answer_that_was_not_said_before_is_printed(capsys):
    events = [scripted.started("ada"), TextDelta(text="Thinking aloud.", **ADA), Answered(text="By a tool.", **ADA)]
    assert "ada  | Thinking aloud.\nada  | By a tool.\nada  ★ answered\n" in shown("simple", capsys, events).err


def test_an_agent_that_answered_and_had_no_vote_is_not_told_to_have_no_answer(capsys):
    answered = [Answered(agent=name, round=1, text=name) for name in ("ada", "bob")]
    told = shown(
        "simple", capsys, [scripted.started(), *answered, scripted.finished(ended=EndReason.ROUNDS, votes={})]
    )
    assert "  ★ ada  best so far\n  · bob  answered\n" in told.err


def test_silent_prints_the_answer_or_why_there_is_none(capsys):
    assert shown("silent", capsys, scripted.whole_run()) == (scripted.finished().text + "\n", "")
    stopped = scripted.finished(ended=EndReason.INTERRUPTED, why="You stopped it.", **NO_ANSWER)
    assert shown("silent", capsys, [stopped]) == ("", "You stopped it.\ntoolyard run --resume r7\n")


def test_json_is_every_event_in_a_line_of_its_own(capsys):
    got = shown("json", capsys, [*scripted.whole_run(), *scripted.hostile_run()])
    assert got.err == ""
    lines = got.out.splitlines()
    assert all(line.isprintable() for line in lines)
    events = [*scripted.whole_run(), *scripted.hostile_run()]
    assert [json.loads(line) for line in lines] == json.loads(json.dumps([as_json(event) for event in events]))


def test_how_to_resume_is_for_the_caller_to_say(capsys):
    stopped = scripted.finished(ended=EndReason.TIME, **NO_ANSWER)
    told = shown("simple", capsys, [stopped], resume=lambda ended: f"go on {ended.run}", has_report=False).err
    assert "  Resume  go on r7\n" in told
    assert "Report" not in told


@pytest.mark.parametrize("kind", ["simple", "silent", "json"])
def test_nothing_that_a_model_or_a_tool_says_speaks_to_a_terminal(capsys, kind):
    got = shown(kind, capsys, scripted.hostile_run())
    unseen = [c for c in got.out + got.err if not c.isprintable() and c not in "\n\u202e"]
    assert unseen == []
    assert "\u202e" not in got.err


def test_every_line_of_progress_begins_with_who_it_is_about(capsys):
    before, _, _ = shown("simple", capsys, scripted.hostile_run()).err.partition("✓ Consensus")
    names = {line[:4].strip() for line in before.split("\n") if line}
    assert names == {"run", "ada", "\\x1b"}  # of whom the last is an agent with a hostile name


def test_an_output_that_knows_ascii_only_gets_that(monkeypatch, capsys):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(raw, encoding="ascii"))
    display = display_for("simple")
    for event in scripted.whole_run():
        display.handle_event(event)
    assert b"ada  ok Read   shop.py" in raw.getvalue()


def test_a_hundred_thousand_pieces_and_a_huge_line_take_little_time_and_memory(capsys):
    display = SimpleDisplay(OutputStreams())
    display.handle_event(scripted.started("ada"))
    began = time.monotonic()
    for _ in range(100_000):
        display.handle_event(TextDelta(text="word and ", **ADA))
        assert display._turns["ada"].length < 70_000
    display.handle_event(TextDelta(text="x" * 3_000_000, **ADA))
    display.handle_event(Answered(text="", **ADA))
    assert time.monotonic() - began < 15
    assert capsys.readouterr().err.count("word and") == 100_000


PLAYER = """
import sys
from tests.team import scripted_events as scripted
from toolyard.cli.run.displays import display_for
gone = []
display = display_for(sys.argv[1], on_gone=lambda: gone.append(1))
for _ in range(60):
    for event in scripted.whole_run():
        display.handle_event(event)
display.close()
print("gone" if gone == [1] else "here", file=open(sys.argv[2], "w"))
"""


@pytest.mark.parametrize("kind", ["simple", "json"])
def test_a_pipe_that_nobody_reads_any_more_is_told_once_and_is_no_traceback(kind, tmp_path):
    ours, theirs = os.pipe()
    os.close(ours)
    process = subprocess.run(
        [sys.executable, "-c", PLAYER, kind, tmp_path / "gone"],
        stdout=theirs,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        timeout=50,
        check=False,
    )
    os.close(theirs)
    assert process.returncode == 0
    assert b"Traceback" not in process.stderr
    assert b"Exception" not in process.stderr
    assert (tmp_path / "gone").read_text() == "gone\n"


def test_a_file_on_a_full_disk_is_told(tmp_path):
    with open("/dev/full", "w") as full:
        process = subprocess.run(
            [sys.executable, "-c", PLAYER, "silent", tmp_path / "gone"],
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            timeout=50,
            check=False,
        )
    assert b"toolyard run: the output cannot be written: [Errno 28]" in process.stderr
    assert b"Traceback" not in process.stderr
