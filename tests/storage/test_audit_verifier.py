"""Finding out that somebody changed the log."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.core.errors import ToolError
from toolyard.core.events import CallOutcome, Event
from toolyard.storage.audit_files import LINE_BYTES, Head, encode
from toolyard.storage.audit_log import AuditLog
from toolyard.storage.audit_reader import read
from toolyard.storage.audit_verifier import MAX_PROBLEMS, AuditFinding, Verification, verify

EVENT = Event("c", "stdio", "agent", "s", "Read", "read", "/ws/a", "allow", "inside", CallOutcome.OK, 0, 1.5)


@pytest.fixture
def state(tmp_path) -> str:
    path = str(tmp_path / "ws-1")
    fill(path)
    return path


def fill(path: str, count: int = 5, tool: str = "Read") -> None:
    with AuditLog.open(path) as log:
        for number in range(count):
            log.append(replace(EVENT, call=str(number), tool=tool))


def log_path(state: str) -> str:
    return os.path.join(state, "audit.jsonl")


def get_lines(state: str) -> list[bytes]:
    with open(log_path(state), "rb") as file:
        return file.read().splitlines(keepends=True)


def put_lines(state: str, lines: list[bytes]) -> None:
    with open(log_path(state), "wb") as file:
        file.write(b"".join(lines))


def problems(state: str) -> tuple[AuditFinding, ...]:
    found = verify(state)
    assert found.ok == (not found.problems)
    return found.problems


def test_an_untouched_log_is_fine(state):
    assert verify(state) == Verification(True, 5, (), ())


def test_an_edited_line_is_found(state):
    lines = get_lines(state)
    lines[2] = lines[2].replace(b"/ws/a", b"/ws/b")
    put_lines(state, lines)
    assert problems(state) == (AuditFinding(3, "was changed: its content and its hash do not agree"),)


def test_an_edited_line_with_a_new_hash_is_found_by_the_line_after_it(state):
    lines = get_lines(state)
    records = list(read(state))
    before = Head(2, 0, records[1].hash)
    lines[2] = encode(replace(EVENT, target="/ws/b"), before, 1.5)[0]
    put_lines(state, [*lines[:3], b"", *lines[3:]])
    assert AuditFinding(4, "does not follow the line before it: one of them was replaced") in problems(state)


def test_an_edited_newest_line_with_a_new_hash_is_found_by_the_head(state):
    lines, records = get_lines(state), list(read(state))
    forged = encode(replace(EVENT, target="/ws/b", call="4"), Head(4, 0, records[3].hash), 1.5)[0]
    put_lines(state, [*lines[:4], forged])
    found = AuditFinding(5, "audit.head names another line in this place: one of them was replaced")
    assert (len(forged), problems(state)) == (len(lines[4]), (found,))


def test_a_line_removed_from_the_middle_is_found(state):
    lines = get_lines(state)
    put_lines(state, lines[:1] + lines[2:])
    assert AuditFinding(2, "lines are missing before it: number 2") in problems(state)


def test_lines_removed_from_the_front_are_found(state):
    put_lines(state, get_lines(state)[2:])
    assert AuditFinding(1, "lines are missing before it: number 1 to 2") in problems(state)


@pytest.mark.parametrize("kept", [0, 1, 4])
def test_lines_removed_from_the_end_are_found(state, kept):
    put_lines(state, get_lines(state)[:kept])
    gone = AuditFinding(kept, "lines were removed from the end: the head says number 5 was the newest")
    assert verify(state) == Verification(False, kept, (gone,), ())


def test_a_removed_tail_is_still_found_after_more_was_written(state):
    put_lines(state, get_lines(state)[:3])
    fill(state, 2)
    assert [record.seq for record in read(state)] == [1, 2, 3, 6, 7, 8]
    assert problems(state) == (
        AuditFinding(4, "lines are missing before it: number 4 to 5"),
        AuditFinding(4, "written when the log was found shorter than its head said: lines before it were removed"),
    )


def test_a_tail_cut_in_the_middle_of_a_line_is_found_before_and_after_more_was_written(state):
    lines = get_lines(state)
    put_lines(state, [*lines[:3], lines[3][:50]])
    assert not verify(state).ok
    fill(state, 1)
    assert AuditFinding(4, "is not a record: it was inserted or changed") in problems(state)


def test_a_line_put_in_is_found(state):
    lines = get_lines(state)
    put_lines(state, [*lines[:2], lines[1], *lines[2:]])
    assert AuditFinding(3, "is out of place: it is number 2 where 3 belongs") in problems(state)


def test_a_chained_line_put_in_behind_the_head_of_another_is_found(state):
    newest = list(read(state))[-1]
    first, first_hash = encode(EVENT, Head(5, 0, newest.hash), 1.5)
    second, _ = encode(EVENT, Head(6, 0, first_hash), 1.5)
    put_lines(state, [*get_lines(state), first, second])
    assert problems(state) == (AuditFinding(7, "2 lines follow the newest that the head knows: they were inserted"),)
    fill(state, 1)
    assert not verify(state).ok


def test_swapped_lines_are_found(state):
    lines = get_lines(state)
    lines[1], lines[2] = lines[2], lines[1]
    put_lines(state, lines)
    found = problems(state)
    assert found[:2] == (
        AuditFinding(2, "lines are missing before it: number 2"),
        AuditFinding(3, "is out of place: it is number 2 where 4 belongs"),
    )


@pytest.mark.parametrize("garbage", [b"garbage\n", b"\n", b"{}\n", b"[" * 60_000 + b"\n", b"\xff\x00\n"])
@pytest.mark.parametrize("place", [0, 2, 5])
def test_a_garbage_line_is_found_wherever_it_is_and_still_after_more_was_written(state, garbage, place):
    lines = get_lines(state)
    put_lines(state, [*lines[:place], garbage, *lines[place:]])
    found = AuditFinding(place + 1, "is not a record: it was inserted or changed")
    assert found in problems(state)
    fill(state, 1)
    assert found in problems(state)


def test_a_line_longer_than_any_record_is_found_without_being_held(state):
    put_lines(state, [*get_lines(state), b"x" * (3 * LINE_BYTES) + b"\n"])
    assert problems(state) == (AuditFinding(6, f"is longer than {LINE_BYTES} bytes"),)


def test_a_replaced_log_is_found(state, tmp_path):
    other = str(tmp_path / "other")
    fill(other, tool="Edit")
    os.replace(log_path(other), log_path(state))
    assert problems(state) == (
        AuditFinding(5, "audit.head names another line in this place: one of them was replaced"),
    )


def test_a_missing_log_is_found(state):
    os.remove(log_path(state))
    assert problems(state) == (AuditFinding(0, "audit.jsonl is missing"),)


@pytest.mark.parametrize("raw", [None, b"", b"toolyard-audit 1", b"x" * 500])
def test_a_missing_or_broken_head_is_found_and_still_after_more_was_written(state, raw):
    path = os.path.join(state, "audit.head")
    os.remove(path)
    if raw is not None:
        with open(path, "wb") as file:
            file.write(raw)
    state_of_it = "missing" if raw is None else "unreadable"
    gone = AuditFinding(5, f"audit.head is {state_of_it}: lines may have been removed from the end")
    assert verify(state) == Verification(False, 5, (gone,), ())
    fill(state, 1)
    marked = "written when the head was missing or unreadable: lines before it may have been removed"
    assert verify(state) == Verification(False, 7, (AuditFinding(6, marked),), ())


def test_removing_what_a_killed_writer_left_is_found(state):
    with open(log_path(state), "ab") as file:
        file.write(b'{"v":1')
    fill(state, 1)
    assert verify(state).ok
    lines = get_lines(state)
    put_lines(state, lines[:5] + lines[6:])
    assert AuditFinding(6, "closes off an unfinished line that is not there: it was removed or changed") in problems(
        state
    )


def test_only_so_many_problems_are_kept(state):
    put_lines(state, [b"garbage\n"] * (MAX_PROBLEMS + 10))
    found = problems(state)
    assert (len(found), found[-1]) == (MAX_PROBLEMS + 1, AuditFinding(0, "and 11 more"))


def test_no_log_is_an_error_that_says_where_to_look(tmp_path):
    with pytest.raises(ToolError, match=r"no audit log.*--workspace"):
        verify(str(tmp_path / "nothing"))


def test_verifying_while_somebody_writes_finds_nothing(state):
    with AuditLog.open(state) as log:
        for _ in range(20):
            log.append(EVENT)
            assert verify(state).ok


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_change_of_a_single_byte_is_found(data):
    with tempfile.TemporaryDirectory() as folder:
        fill(folder, 2)
        with open(log_path(folder), "ab") as file:
            file.write(b'{"v":1,"seq":3')
        fill(folder, 2)
        assert verify(folder).ok
        path = os.path.join(folder, data.draw(st.sampled_from(["audit.jsonl", "audit.jsonl", "audit.head"])))
        with open(path, "r+b") as file:
            raw = file.read()
            place = data.draw(st.integers(0, len(raw) - 1))
            file.seek(place)
            file.write(bytes([data.draw(st.integers(0, 255).filter(lambda byte: byte != raw[place]))]))
        assert not verify(folder).ok


def test_a_head_that_points_into_a_line_is_found(state):
    newest = list(read(state))[-1]
    size = os.path.getsize(log_path(state))
    with open(os.path.join(state, "audit.head"), "wb") as file:
        file.write(Head(5, size - 10, newest.hash).to_bytes())
    assert problems(state) == (AuditFinding(5, "audit.head points into the middle of a line"),)


def test_a_newest_line_without_its_end_is_found_when_the_head_knows_it_whole(state):
    lines = get_lines(state)
    put_lines(state, [*lines[:4], lines[4][:-1] + b" "])
    assert problems(state)[0] == AuditFinding(5, "the last line was changed: it has no end")
