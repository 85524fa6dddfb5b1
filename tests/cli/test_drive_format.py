"""The messages of a run in words."""

from __future__ import annotations

import time

import pytest

from toolyard.cli.drive.format import (
    CallSummary,
    call_subject,
    describe_result,
    format_duration,
    format_usage,
    terminal_safe,
)
from toolyard.drivers import Finished, Status, Tokens, ToolCall


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall("1", name, arguments)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (call("Read", file_path="/ws/src/a.py", limit=3), "src/a.py"),
        (call("Read", file_path="/etc/passwd"), "/etc/passwd"),
        (call("Read", file_path="/ws-other/a"), "/ws-other/a"),
        (call("Grep", path="/ws/src", pattern="def \\w+"), "def \\w+ in src"),
        (call("Grep", pattern="x", glob="*.py"), "x in *.py"),
        (call("Bash", command="\n  pytest -q\necho done"), "pytest -q"),
        (call("execute_python", code="import os\nos.listdir()"), "import os"),
        (call("anything", number=3, text="hello"), "hello"),
        (call("anything", file_path=7, edits=[]), ""),
        (call("Write", file_path="\x1b]0;owned\x07a.txt", content="x"), "\\x1b]0;owned\\x07a.txt"),
    ],
)
def test_a_call_says_what_it_is_about(made, said):
    assert call_subject(made, "/ws") == said


@pytest.mark.parametrize(
    ("made", "text", "came"),
    [
        (
            call("Edit", old_string="a\nb", new_string="a\nc\nd"),
            "Edited x: 1 replacement.",
            CallSummary(True, "+2 -1"),
        ),
        (call("Edit", old_string="a", new_string="b"), "Edited x: 3 replacements.", CallSummary(True, "+3 -3")),
        (
            call("MultiEdit", edits=[{"old_string": "a", "new_string": ""}, {"old_string": "b", "new_string": "c"}]),
            "Edited x: 2 replacements.",
            CallSummary(True, "+1 -2"),
        ),
        (call("edit_file", edits=[{"oldText": "a", "newText": "b\nc"}]), "...", CallSummary(True, "+2 -1")),
        (call("MultiEdit", edits=["nonsense"]), "?", CallSummary(True, "+0 -0")),
        (call("Write"), "Created a (1 line, 2 bytes).", CallSummary(True, "new, 1 line")),
        (call("Write"), "Replaced a (1,200 lines, 9 bytes).", CallSummary(True, "1,200 lines")),
        (call("Read"), "     1\tone\n     2\ttwo", CallSummary(True, "2 lines")),
        (call("Read"), "     1\tone", CallSummary(True, "1 line")),
        (call("Grep"), "No matches.", CallSummary(True, "No matches.")),
        (call("Bash"), "a\n12 passed\n", CallSummary(True, "12 passed")),
        (call("Bash"), "Exit code 3", CallSummary(True, "Exit code 3")),  # printed by a command that went well
        (call("Bash"), "", CallSummary(True)),
    ],
)
def test_what_came_of_a_call_is_seen_at_a_glance(made, text, came):
    assert describe_result(made, text, ok=True, exit_code=0) == came


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("boom\nExit code 3", "exit 3: boom"),
        ("boom\nExit code 3\n[The sandbox has no network.]", "exit 3: boom"),
        ("Exit code 3", "exit 3"),
        ("boom", "exit 3: boom"),
    ],
)
def test_a_command_that_failed_says_its_exit_code_and_last_line(text, note):
    assert describe_result(call("Bash"), text, ok=False, exit_code=3) == CallSummary(ok=False, note=note)


def test_a_failure_is_told_whole():
    came = describe_result(call("Read"), "It is outside.\nUse another.", ok=False)
    assert came == CallSummary(ok=False, reason="It is outside.\nUse another.")


def test_no_text_speaks_to_the_terminal():
    text = "a\x1b[2J\r\nb\x9b31m\u202e\x07\ud800\u2028 d\u00a0e👩\u200d🚀\x7f"
    assert terminal_safe(text) == "a\\x1b[2J\nb\\x9b31m\\u202e\\x07\\ud800\\u2028 d e👩🚀\\x7f"
    assert terminal_safe("\ta\rb") == "    a\\rb"


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.0, ""), (0.0421, "42 ms"), (1.26, "1.3 s"), (14.2, "14 s"), (125, "2 min 5 s")]
)
def test_a_time_is_short(seconds, said):
    assert format_duration(seconds) == said


def test_what_a_run_cost_is_told_as_far_as_it_is_known():
    assert format_usage(Finished(Status.FAILED, seconds=2)) == ["2.0 s"]
    ended = Finished(Status.SUCCEEDED, tokens=Tokens(12_345, 350, 10_000), cost=0.0042, seconds=2)
    assert format_usage(ended) == ["2.0 s", "12,345 tokens in (10,000 cached), 350 out", "$0.0042"]
    assert format_usage(Finished(Status.SUCCEEDED, cost=1.5, seconds=2))[-1] == "$1.50"


def test_a_large_edit_is_counted_at_once():
    numbers = range(1500)
    old = "\n".join(f"same {number}" if number < 100 else f"price = {number} * total" for number in numbers)
    new = "\n".join(f"same {number}" if number < 100 else f"total = price + {number}" for number in numbers)
    began = time.monotonic()
    came = describe_result(call("Edit", old_string=old, new_string=new), "1 replacement.", ok=True)
    middle = call("Edit", old_string=old[:15_000], new_string=new[:15_000])
    describe_result(middle, "1 replacement.", ok=True)
    assert came == CallSummary(True, "+1400 -1400")
    assert time.monotonic() - began < 5


def test_what_peers_did_meanwhile_is_no_part_of_what_a_command_came_to() -> None:
    call = ToolCall("1", "Bash", {"command": "make"})
    text = "built\n[ada changed 1 file: shared/ada/plan.md]"

    assert describe_result(call, text, ok=True, exit_code=0).note == "built"
