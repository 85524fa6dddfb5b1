"""Reads the audit log back, as typed records, in the order they were written.

Lines that are not records are skipped; `audit_verifier` reports them. Following waits for new lines, leaves an
unfinished one until it is complete, and continues with a log that replaced the old one.
"""

from __future__ import annotations

import os
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolyard.storage.audit_files import (
    LINE_BYTES,
    LOG_NAME,
    READ_ONLY,
    AuditRecord,
    iter_lines,
    open_log,
    open_regular,
    parse,
    unreadable_error,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toolyard.core.events import CallOutcome

FOLLOW_SECONDS = 0.2
"""Pause between two checks of the log's size."""


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Selects records: those that match every field that is set."""

    tool: str | None = None
    outcome: CallOutcome | None = None
    agent: str | None = None

    def matches(self, record: AuditRecord) -> bool:
        """Returns whether a record matches."""
        event = record.event
        wanted = ((self.tool, event.tool), (self.outcome, event.outcome), (self.agent, event.agent))
        return all(wish is None or wish == has for wish, has in wanted)


EVERYTHING = RecordFilter()


def read(
    state_dir: str,
    *,
    follow: bool = False,
    last: int | None = None,
    only: RecordFilter = EVERYTHING,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[AuditRecord]:
    """Yields the matching records of the log: all, or the `last` so many; with `follow` also new ones.

    Raises ToolError if there is no log, SystemFault if it cannot be read.
    """
    with open_log(state_dir) as (log, _):
        if log is None:
            return
        try:
            size = os.fstat(log).st_size
            start = _start_of_last(log, size, last) if last is not None and only == EVERYTHING else 0
            cursor = _Cursor(start)
            records = (record for record in cursor.advance(log, size) if only.matches(record))
            yield from records if last is None else deque(records, maxlen=last)
            if follow:
                for record in _follow_log(state_dir, log, cursor, pause):
                    if only.matches(record):
                        yield record
        except OSError as error:
            raise unreadable_error(state_dir, error) from error


@dataclass(slots=True)
class _Cursor:
    """How far the log has been read: always the end of a complete line."""

    position: int

    def advance(self, log: int, size: int) -> Iterator[AuditRecord]:
        for line in iter_lines(log, self.position, size):
            if not line.complete:
                return
            self.position = line.end
            record = None if line.too_long else parse(line.data)
            if record is not None:
                yield record


def _follow_log(state_dir: str, log: int, cursor: _Cursor, pause: Callable[[float], None]) -> Iterator[AuditRecord]:
    own: int | None = None
    try:
        while True:
            pause(FOLLOW_SECONDS)
            replaced = _open_replacement(state_dir, log)
            # A failed append may be truncated to before the read position.
            cursor.position = min(cursor.position, size := os.fstat(log).st_size)
            yield from cursor.advance(log, size)
            if replaced is not None:
                if own is not None:
                    os.close(own)
                own = log = replaced
                cursor.position = 0
    finally:
        if own is not None:
            os.close(own)


def _open_replacement(state_dir: str, log: int) -> int | None:
    """Opens the log that replaced ours; None if none did."""
    try:
        current = os.stat(os.path.join(state_dir, LOG_NAME), follow_symlinks=False)
        if current.st_ino == os.fstat(log).st_ino:
            return None
        directory = os.open(state_dir, READ_ONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return open_regular(LOG_NAME, READ_ONLY, directory)
        finally:
            os.close(directory)
    except FileNotFoundError:
        return None  # removed; the next writer creates a new one


def _start_of_last(log: int, size: int, count: int) -> int:
    """Returns where the last `count` lines begin, found from the end: a long log costs no more than a short one."""
    # The newline that ends the last line is found first, hence one more.
    wanted, position = count + 1, size
    while position > 0:
        begin = max(0, position - LINE_BYTES)
        block = os.pread(log, position - begin, begin)
        found = block.count(b"\n")
        if found >= wanted:
            at = len(block)
            for _ in range(wanted):
                at = block.rindex(b"\n", 0, at)
            return begin + at + 1
        wanted -= found
        position = begin
    return 0
