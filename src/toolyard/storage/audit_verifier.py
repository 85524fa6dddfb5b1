"""Verifies the audit log: finds out whether it was tampered with. Read-only, in one pass, with bounded memory.

What a killed writer can leave is reported as `recovered` and is not a problem: one complete line after the head, an
unfinished last line, an unfinished line that the next one closed. Everything else that breaks the chain is a problem.
Anyone who can write to the state folder can also write a complete new chain with a new head: to detect that, store
the newest hash somewhere they cannot reach, and look for it.
"""

from __future__ import annotations

import fcntl
import os
from typing import NamedTuple

from toolyard.storage.audit_files import (
    CUT,
    FOREIGN,
    GENESIS,
    HEAD_NAME,
    HEADLESS,
    LINE_BYTES,
    LOG_NAME,
    TORN,
    AuditRecord,
    Head,
    LogLine,
    iter_lines,
    lock,
    open_log,
    parse,
    read_head,
    unreadable_error,
)

MAX_PROBLEMS = 200
"""Problems that are listed; the rest are counted."""

_MARKED = {
    CUT: "written when the log was found shorter than its head said: lines before it were removed",
    FOREIGN: "written when lines were found behind the head that do not follow the chain",
    HEADLESS: "written when the head was missing or unreadable: lines before it may have been removed",
}


class AuditFinding(NamedTuple):
    """A line of the file, counted from 1 (0: the log as a whole), and what is wrong with it."""

    line: int
    what: str


class Verification(NamedTuple):
    """`ok` if there are no problems; `events` is the number of records read."""

    ok: bool
    events: int
    problems: tuple[AuditFinding, ...]
    recovered: tuple[AuditFinding, ...]


def verify(state_dir: str) -> Verification:
    """Checks every line and the head. Raises ToolError if there is no log, SystemFault if it cannot be read."""
    with open_log(state_dir) as (log, head_handle):
        try:
            head, size = _snapshot(log, head_handle, state_dir)
            check = _ChainCheck(head, head_missing=head_handle is None)
            if log is None:
                check.problem(0, f"{LOG_NAME} is missing")
            else:
                for line in iter_lines(log, 0, size):
                    check.feed(line)
                check.finish(size)
        except OSError as error:
            raise unreadable_error(state_dir, error) from error
        return check.result()


def _snapshot(log: int | None, head: int | None, state_dir: str) -> tuple[Head | None, int]:
    """Returns a head and a log size that belong together: writers are locked out only for this moment."""
    if head is None:
        return None, 0 if log is None else os.fstat(log).st_size
    lock(head, fcntl.LOCK_SH, state_dir)
    try:
        return read_head(head), 0 if log is None else os.fstat(log).st_size
    finally:
        fcntl.flock(head, fcntl.LOCK_UN)


class _ChainCheck:
    """The state of one pass: the position in the chain, and the findings."""

    def __init__(self, head: Head | None, *, head_missing: bool) -> None:
        self._head = head
        self._head_missing = head_missing
        self._seq = 0
        self._hash = GENESIS
        self._events = 0
        self._number = 0
        self._suspect: LogLine | None = None
        self._head_met = head is None or head == Head()
        self._ahead = 0
        self._problems: list[AuditFinding] = []
        self._recovered: list[AuditFinding] = []
        self._left_out = 0

    def problem(self, line: int, what: str) -> None:
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(AuditFinding(line, what))
        else:
            self._left_out += 1

    def feed(self, line: LogLine) -> None:
        self._number = line.number
        behind_head = self._head is not None and line.end > self._head.length
        record = None if line.too_long else parse(line.data)
        if record is None or not line.complete:
            self._handle_unreadable(line, record, behind_head=behind_head)
            return
        self._resolve_suspect(record)
        self._check_chain(line.number, record)
        self._ahead += behind_head
        if self._head is not None and line.end == self._head.length:
            self._head_met = True
            if (record.seq, record.hash) != (self._head.seq, self._head.hash):
                self.problem(line.number, f"{HEAD_NAME} names another line in this place: one of them was replaced")

    def finish(self, size: int) -> None:
        number, head = self._number, self._head
        self._report_suspect()
        if self._head_missing:
            self.problem(number, f"{HEAD_NAME} is missing: lines may have been removed from the end")
        elif head is None:
            self.problem(number, f"{HEAD_NAME} is unreadable: lines may have been removed from the end")
        elif head.length > size:
            self.problem(number, f"lines were removed from the end: the head says number {head.seq} was the newest")
        elif not self._head_met:
            self.problem(number, f"{HEAD_NAME} points into the middle of a line")
        elif self._ahead > 1:
            self.problem(number, f"{self._ahead} lines follow the newest that the head knows: they were inserted")
        elif self._ahead == 1:
            self._note(number, "a writer was killed before it moved the head")

    def result(self) -> Verification:
        problems = tuple(self._problems)
        if self._left_out:
            problems = (*problems, AuditFinding(0, f"and {self._left_out} more"))
        return Verification(not problems, self._events, problems, tuple(self._recovered))

    def _handle_unreadable(self, line: LogLine, record: AuditRecord | None, *, behind_head: bool) -> None:
        """Handles a line that is not a record: harmless only at the end, or closed by the next line, after a kill."""
        self._report_suspect()
        if line.complete:
            self._suspect = line
        elif behind_head and (record is None or self._follows(record)):
            self._note(line.number, "a writer was killed in the middle of the line; the next one will close it off")
        else:
            self.problem(line.number, "the last line was changed: it has no end")

    def _follows(self, record: AuditRecord) -> bool:
        return record.intact and (record.seq, record.prev) == (self._seq + 1, self._hash)

    def _resolve_suspect(self, record: AuditRecord) -> None:
        suspect, self._suspect = self._suspect, None
        claim = record.mark.removeprefix(TORN) if record.mark.startswith(TORN) else None
        if suspect is not None and claim == suspect.digest and record.intact:
            self._note(suspect.number, "a writer was killed in the middle of the line; the next one closed it off")
        elif suspect is not None:
            self._report_line(suspect)
        if claim is not None and (suspect is None or claim != suspect.digest):
            self.problem(self._number, "closes off an unfinished line that is not there: it was removed or changed")

    def _report_suspect(self) -> None:
        if self._suspect is not None:
            self._report_line(self._suspect)
            self._suspect = None

    def _report_line(self, line: LogLine) -> None:
        too_long = f"is longer than {LINE_BYTES} bytes"
        self.problem(line.number, too_long if line.too_long else "is not a record: it was inserted or changed")

    def _check_chain(self, number: int, record: AuditRecord) -> None:
        """Compares a record with the line before, then continues from it, so that one change is reported once."""
        self._events += 1
        expected = self._seq + 1
        if not record.intact:
            self.problem(number, "was changed: its content and its hash do not agree")
        if record.seq > expected:
            gone = str(expected) if record.seq == expected + 1 else f"{expected} to {record.seq - 1}"
            self.problem(number, f"lines are missing before it: number {gone}")
        elif record.seq < expected:
            self.problem(number, f"is out of place: it is number {record.seq} where {expected} belongs")
        elif record.prev != self._hash and record.intact:
            self.problem(number, "does not follow the line before it: one of them was replaced")
        if record.mark in _MARKED:
            self.problem(number, _MARKED[record.mark])
        self._seq, self._hash = record.seq, record.hash

    def _note(self, line: int, what: str) -> None:
        if len(self._recovered) < MAX_PROBLEMS:
            self._recovered.append(AuditFinding(line, what))
