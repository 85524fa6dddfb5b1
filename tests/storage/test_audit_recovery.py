"""What a writer that was killed leaves behind, and how the next one goes on from it."""

from __future__ import annotations

import os

import pytest

from toolyard.core.events import CallOutcome, Event
from toolyard.storage.audit_files import Head, digest, encode
from toolyard.storage.audit_log import AuditLog
from toolyard.storage.audit_reader import read
from toolyard.storage.audit_verifier import AuditFinding, Verification, verify

EVENT = Event("c", "stdio", "agent", "s", "Read", "read", "/ws/a", "allow", "inside", CallOutcome.OK, 0, 1.5)


@pytest.fixture
def state(tmp_path) -> str:
    return str(tmp_path / "ws-1")


def filled(state: str, count: int) -> None:
    with AuditLog.open(state) as log:
        for _ in range(count):
            log.append(EVENT)


def log_path(state: str) -> str:
    return os.path.join(state, "audit.jsonl")


def content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def append_raw(state: str, data: bytes) -> None:
    with open(log_path(state), "ab") as file:
        file.write(data)


def next_line(state: str, event: Event = EVENT) -> bytes:
    with open(os.path.join(state, "audit.head"), "rb") as file:
        head = Head.from_bytes(file.read())
    assert head is not None
    return encode(event, head, 1.5)[0]


def test_a_line_ahead_of_its_head_is_accepted_and_adopted(state):
    filled(state, 2)
    append_raw(state, next_line(state))
    killed = AuditFinding(3, "a writer was killed before it moved the head")
    assert verify(state) == Verification(True, 3, (), (killed,))
    filled(state, 1)
    assert [record.seq for record in read(state)] == [1, 2, 3, 4]
    assert verify(state) == Verification(True, 4, (), ())


def test_the_very_first_line_may_be_ahead_of_its_head(state):
    AuditLog.open(state).close()
    append_raw(state, next_line(state))
    filled(state, 1)
    assert verify(state) == Verification(True, 2, (), ())


@pytest.mark.parametrize("kept", [1, 40, -2], ids=["one byte", "some", "all but the closing brace"])
def test_a_torn_line_is_closed_off_and_reported_as_recovered(state, kept):
    filled(state, 2)
    torn = next_line(state)[:kept]
    append_raw(state, torn)
    open_end = AuditFinding(3, "a writer was killed in the middle of the line; the next one will close it off")
    assert verify(state) == Verification(True, 2, (), (open_end,))
    filled(state, 1)
    closed = AuditFinding(3, "a writer was killed in the middle of the line; the next one closed it off")
    assert verify(state) == Verification(True, 4, (), (closed,))
    assert content(log_path(state)).splitlines()[2] == torn
    recovered = list(read(state))[2]
    assert (recovered.seq, recovered.mark, recovered.event.kind) == (3, f"torn:{digest(torn)}", "recovered")


def test_a_line_that_lacks_only_its_newline_is_kept(state):
    filled(state, 1)
    append_raw(state, next_line(state)[:-1])
    assert verify(state).ok
    filled(state, 1)
    assert [record.seq for record in read(state)] == [1, 2, 3]
    assert verify(state) == Verification(True, 3, (), ())


def test_a_writer_killed_while_it_closed_off_a_torn_line_is_recovered_from(state):
    filled(state, 1)
    head = content(os.path.join(state, "audit.head"))
    append_raw(state, b'{"v":1,"se')
    AuditLog.open(state).close()
    with open(os.path.join(state, "audit.head"), "wb") as file:
        file.write(head)
    assert verify(state).ok
    filled(state, 1)
    closed = AuditFinding(2, "a writer was killed in the middle of the line; the next one closed it off")
    assert verify(state) == Verification(True, 3, (), (closed,))


def test_an_open_writer_recovers_from_what_another_one_left(state):
    with AuditLog.open(state) as log:
        log.append(EVENT)
        append_raw(state, b"{torn")
        assert log.append(EVENT) == 3
    assert verify(state).ok


def test_only_one_line_ahead_of_the_head_is_adopted(state):
    filled(state, 1)
    append_raw(state, next_line(state) * 2)
    filled(state, 1)
    assert [(record.seq, record.mark) for record in read(state)] == [
        (1, ""),
        (2, ""),
        (2, ""),
        (3, "foreign"),
        (4, ""),
    ]
    assert not verify(state).ok
