"""Reading the log back, and following it."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from toolyard.core.errors import ToolError
from toolyard.core.events import CallOutcome, Event
from toolyard.storage.audit_files import Head, encode
from toolyard.storage.audit_log import AuditLog
from toolyard.storage.audit_reader import FOLLOW_SECONDS, RecordFilter, read

EVENT = Event("c", "stdio", "agent", "s", "Read", "read", "/ws/a", "allow", "inside", CallOutcome.OK, 0, 1.5)
DENIED = replace(EVENT, tool="Edit", outcome=CallOutcome.DENIED)


@pytest.fixture
def state(tmp_path) -> str:
    return str(tmp_path / "ws-1")


def append(state: str, *events: Event) -> None:
    with AuditLog.open(state) as log:
        for event in events:
            log.append(event)


class Script:
    """Stands for the waiting: each wait does the next step, and the one after the last ends the following."""

    def __init__(self, *steps) -> None:
        self.steps = list(steps)
        self.waits: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.waits.append(seconds)
        if not self.steps:
            raise KeyboardInterrupt
        self.steps.pop(0)()


def followed(state: str, script: Script, **options) -> list[int]:
    numbers = []
    with pytest.raises(KeyboardInterrupt):
        for record in read(state, follow=True, pause=script, **options):
            numbers.append(record.seq)
    return numbers


def test_records_come_in_order_with_their_numbers(state):
    append(state, EVENT, DENIED)
    assert [(record.seq, record.event) for record in read(state)] == [(1, EVENT), (2, DENIED)]


@pytest.mark.parametrize(
    ("last", "expected"), [(0, []), (1, [900]), (3, [898, 899, 900]), (5000, list(range(1, 901)))]
)
def test_the_last_records_are_found_from_the_end(state, last, expected):
    append(state, *[EVENT] * 900)
    assert [record.seq for record in read(state, last=last)] == expected


def test_filters_choose_and_last_counts_what_they_chose(state):
    append(state, EVENT, DENIED, DENIED, EVENT)
    denied = RecordFilter(outcome=CallOutcome.DENIED)
    assert [record.seq for record in read(state, only=denied)] == [2, 3]
    assert [record.seq for record in read(state, only=denied, last=1)] == [3]
    assert [record.seq for record in read(state, only=RecordFilter(tool="Read"))] == [1, 4]
    assert [record.seq for record in read(state, only=RecordFilter(tool="Read", outcome=CallOutcome.DENIED))] == []


def test_lines_that_are_not_records_are_passed_over(state):
    append(state, EVENT)
    with open(os.path.join(state, "audit.jsonl"), "ab") as file:
        file.write(b"garbage\n" + b"x" * 200_000 + b"\n")
    append(state, EVENT)
    assert [record.seq for record in read(state)] == [1, 2, 3]


def test_following_gives_what_is_appended_later(state):
    append(state, EVENT, EVENT)
    script = Script(lambda: append(state, EVENT), lambda: None, lambda: append(state, DENIED, EVENT))
    assert followed(state, script, last=1) == [2, 3, 4, 5]
    assert script.waits == [FOLLOW_SECONDS] * 4


def test_following_with_a_filter_gives_only_what_matches(state):
    append(state, EVENT)
    script = Script(lambda: append(state, DENIED, EVENT))
    assert followed(state, script, only=RecordFilter(tool="Edit")) == [2]


def test_following_waits_for_the_end_of_an_unfinished_line(state):
    append(state, EVENT)
    newest = next(read(state))
    line, _ = encode(EVENT, Head(1, 0, newest.hash), 1.5)

    def write(data: bytes) -> None:
        with open(os.path.join(state, "audit.jsonl"), "ab") as file:
            file.write(data)

    script = Script(lambda: write(line[:100]), lambda: write(line[100:]))
    assert followed(state, script) == [1, 2]


def test_following_goes_on_with_a_log_that_took_the_place_of_the_old_one(state):
    append(state, EVENT, EVENT)

    def replace_it() -> None:
        os.rename(os.path.join(state, "audit.jsonl"), os.path.join(state, "moved"))
        os.remove(os.path.join(state, "audit.head"))

    script = Script(replace_it, lambda: append(state, EVENT), lambda: None)
    assert followed(state, script) == [1, 2, 1]


def test_no_log_is_an_error(state):
    with pytest.raises(ToolError, match="no audit log"):
        next(read(state))
