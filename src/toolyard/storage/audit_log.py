"""The audit log of one workspace, for writing.

Contract. `AuditLog.open` creates missing files; `append` adds one line and returns its number; `close` (or leaving
the `with`) syncs everything to disk. Any number of threads and processes may append at once: each line is written
under a lock on the head, [read head, append line, write head]. A line survives the death of this process as soon as
`append` returns, and a power failure only after `sync`.

A writer may be killed at any moment. It leaves the head one line behind, or a line without its end; the next open or
append adopts the first and closes the second (see `audit_files` for the marks). Anything that a killed writer cannot
have caused is left unchanged, for `verify` to find: recovery never hides tampering.

No call runs without a record: an AuditRecorder keeps an event that could not be written, and until it is in the log,
`write_pending` refuses every further call before it runs. The events of refused calls are kept too, up to a limit:
those calls did nothing.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections import deque
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault, ToolyardError
from toolyard.core.events import CallOutcome, Event
from toolyard.core.ids import new_id
from toolyard.storage.audit_files import (
    APPEND,
    CUT,
    FOREIGN,
    HEAD_BYTES,
    HEAD_NAME,
    HEADLESS,
    LOG_NAME,
    READ_WRITE,
    TORN,
    AuditRecord,
    Head,
    LogLine,
    encode,
    iter_lines,
    lock,
    open_regular,
    parse,
)
from toolyard.storage.state_folder import ensure_state_dir

REOPEN_TRIES = 5
"""How often a writer reopens files that are being replaced."""
STAMP_TICK_NANOSECONDS = 50_000_000
"""Longer than one clock tick of any known file system."""
UNKNOWN_STAMP = -1
NO_HEAD_YET = b"none"
"""A value that no head file contains; not even an empty one."""

_MOST_REFUSED = 1_000
_REASONS = {
    TORN: "a writer was killed in the middle of the line before this one",
    CUT: "the log was shorter than its head said: lines before this one were removed",
    FOREIGN: "something was added to the log that does not follow its chain",
    HEADLESS: "the head was missing or unreadable: a removed tail could not have been noticed",
}


@dataclass(frozen=True, slots=True)
class _Handles:
    """The open files. They belong to one process: a fork must not use its parent's locks."""

    pid: int
    directory: int
    log: int
    head: int
    log_inode: int
    head_inode: int

    @classmethod
    def open(cls, state_dir: str) -> _Handles:
        directory = os.open(ensure_state_dir(state_dir), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        opened = [directory]
        try:
            opened.append(log := open_regular(LOG_NAME, APPEND, directory))
            opened.append(head := open_regular(HEAD_NAME, READ_WRITE, directory))
            inodes = os.fstat(log).st_ino, os.fstat(head).st_ino
        except BaseException:
            for handle in opened:
                os.close(handle)
            raise
        return cls(os.getpid(), directory, log, head, *inodes)

    def close(self) -> None:
        for handle in (self.head, self.log, self.directory):
            os.close(handle)


class AuditLog(Closeable):
    """Appends events to the audit log; see the module."""

    def __init__(self, state_dir: str, handles: _Handles) -> None:
        """Use `AuditLog.open`."""
        self._state_dir = state_dir
        self._handles: _Handles | None = handles
        self._thread_lock = Lock()
        self._last_head = (NO_HEAD_YET, Head())
        self._folder_stamp = UNKNOWN_STAMP

    @classmethod
    def open(cls, state_dir: str) -> AuditLog:
        """Opens the log, creates missing files, and recovers from a killed writer. Raises SystemFault."""
        try:
            log = cls(state_dir, _Handles.open(state_dir))
            try:
                with log._thread_lock:
                    handles, size = log._lock()
                    try:
                        log._current_head(handles, size)
                    finally:
                        fcntl.flock(handles.head, fcntl.LOCK_UN)
            except BaseException:
                log._close_handles()
                raise
        except OSError as error:
            raise _log_fault("opened", state_dir, error) from error
        return log

    def append(self, event: Event) -> int:
        """Writes one event and returns its number in the log. Raises SystemFault if it could not be written."""
        if self._handles is not None and self._handles.pid != os.getpid():
            # After a fork: another thread may have held the lock in the parent, and would never release ours.
            self._thread_lock = Lock()
        with self._thread_lock:
            try:
                handles, size = self._lock()
                try:
                    self._last_head = _append_line(handles, self._current_head(handles, size), event)
                    return self._last_head[1].seq
                finally:
                    fcntl.flock(handles.head, fcntl.LOCK_UN)
            except OSError as error:
                raise _log_fault("written", self._state_dir, error) from error

    def sync(self) -> None:
        """Waits until every line is on disk."""
        with self._thread_lock:
            if self._handles is not None:
                self._sync(self._handles)

    def close(self) -> None:
        """Syncs and closes the files. Closing twice is harmless."""
        with self._thread_lock:
            if self._handles is None:
                return
            try:
                self._sync(self._handles)
            finally:
                self._close_handles()

    def _sync(self, handles: _Handles) -> None:
        try:
            os.fsync(handles.log)  # log first: a head ahead of its log would look like removed lines
            os.fsync(handles.head)
        except OSError as error:
            raise _log_fault("put on the disk", self._state_dir, error) from error

    def _close_handles(self) -> None:
        if self._handles is not None:
            self._handles.close()
            self._handles = None

    def _lock(self) -> tuple[_Handles, int]:
        """Locks the files that currently have the log's names. Returns the handles and the log's size."""
        handles = self._handles
        if handles is None:
            raise SystemFault("The audit log is closed.", hint="Open it again before running a tool.")
        for _ in range(REOPEN_TRIES):
            if handles.pid == os.getpid():
                lock(handles.head, fcntl.LOCK_EX, self._state_dir)
                if self._is_current(handles):
                    return handles, os.lseek(handles.log, 0, os.SEEK_END)
                fcntl.flock(handles.head, fcntl.LOCK_UN)
            fresh = _Handles.open(self._state_dir)
            handles.close()
            self._handles = handles = fresh
            self._folder_stamp = UNKNOWN_STAMP
        raise SystemFault(
            f"The audit log in {self._state_dir} is being replaced again and again.",
            hint="Find what writes to that folder and stop it.",
            retryable=True,
        )

    def _is_current(self, handles: _Handles) -> bool:
        """Returns whether our files are the ones in the folder, and were not moved away or removed.

        Looking both up takes a third of the time of an append, so it is done only if the folder has changed.
        """
        changed = os.fstat(handles.directory).st_mtime_ns
        if changed == self._folder_stamp:
            return True
        try:
            log = os.stat(LOG_NAME, dir_fd=handles.directory, follow_symlinks=False)
            head = os.stat(HEAD_NAME, dir_fd=handles.directory, follow_symlinks=False)
        except FileNotFoundError:
            return False  # opening creates them again; the recovery mark records it
        # Within one tick of the file system's clock a second change would leave the same stamp.
        settled = time.time_ns() - changed > STAMP_TICK_NANOSECONDS
        self._folder_stamp = changed if settled else UNKNOWN_STAMP
        return log.st_ino == handles.log_inode and head.st_ino == handles.head_inode

    def _current_head(self, handles: _Handles, size: int) -> Head:
        raw = os.pread(handles.head, HEAD_BYTES + 1, 0)
        known, head = self._last_head
        if raw != known:
            head = Head.from_bytes(raw)
        if head is not None and head.length == size:
            return head
        return _recover_head(handles, head, size)


class EventLog(Protocol):
    """Where events go: `storage.AuditLog`, or a test's own log."""

    def append(self, event: Event) -> int: ...


class AuditRecorder:
    """Records the events of calls. Used only from the event loop's thread."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self.pending: deque[Event] = deque()
        """Events that could not be written yet."""

    def write_pending(self) -> None:
        """Writes the pending events. Raises the log's error if it still cannot be written."""
        while self.pending:
            self._log.append(self.pending[0])
            self.pending.popleft()

    def record(self, event: Event, *, ran: bool) -> ToolyardError | None:
        """Writes the event of a call; returns the log's error if that fails. `ran`: it may have had effects."""
        is_queued = ran or len(self.pending) < _MOST_REFUSED
        if is_queued:
            self.pending.append(event)
        try:
            self.write_pending()
            if not is_queued:
                self._log.append(event)
        except ToolyardError as error:
            return error
        return None


def _append_line(
    handles: _Handles, head: Head, event: Event, *, mark: str = "", size: int | None = None, before: bytes = b""
) -> tuple[bytes, Head]:
    """Appends a line at `size` (default: the head's length) and moves the head; all or nothing."""
    start = head.length if size is None else size
    line, line_hash = encode(event, head, time.time(), mark)
    data = before + line
    try:
        written = os.write(handles.log, data)
        if written != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        moved = Head(head.seq + 1, start + written, line_hash)
        return _write_head(handles, moved), moved
    except OSError:
        os.ftruncate(handles.log, start)  # safe: the lock is still held
        raise


def _write_head(handles: _Handles, head: Head) -> bytes:
    data = head.to_bytes()
    if os.pwrite(handles.head, data, 0) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return data


def _recover_head(handles: _Handles, head: Head | None, size: int) -> Head:
    """Returns the head to continue from, if head and log do not agree. The caller holds the lock."""
    if head is None:
        os.ftruncate(handles.head, 0)  # its content may be longer than a head
        if size == 0:
            fresh = Head()
            _write_head(handles, fresh)
            return fresh
        return _append_mark(handles, _last_record(handles.log, size), size, HEADLESS)
    if head.length > size:
        return _append_mark(handles, head, size, CUT)
    return _recover_tail(handles, head, size)


def _recover_tail(handles: _Handles, head: Head, size: int) -> Head:
    """Handles a log longer than its head: adopts the line that a killed writer finished, closes one that it did not.

    At most one line is adopted, because every writer moves the head before the next may write.
    """
    adopted: Head | None = None
    torn: LogLine | None = None
    foreign = False
    for line in iter_lines(handles.log, head.length, size):
        record = None if line.too_long or adopted else parse(line.data)
        if record is not None and _follows(record, head, torn):
            adopted = Head(record.seq, line.end, record.hash)
            torn = None
        else:
            # A line that is neither the next one nor closed off by the next one.
            foreign = foreign or torn is not None
            torn = line
    if adopted is not None and torn is None and not foreign:
        if not _ends_with_newline(handles.log, size):
            os.write(handles.log, b"\n")
            adopted = Head(adopted.seq, size + 1, adopted.hash)
        _write_head(handles, adopted)
        return adopted
    state = adopted or head
    if torn is not None and not torn.complete and not foreign:
        return _append_mark(handles, state, size, TORN + torn.digest)
    return _append_mark(handles, state, size, FOREIGN)


def _follows(record: AuditRecord, head: Head, torn: LogLine | None) -> bool:
    chained = record.intact and record.seq == head.seq + 1 and record.prev == head.hash
    claimed = record.mark == TORN + torn.digest if torn is not None else not record.mark.startswith(TORN)
    return chained and claimed


def _last_record(log: int, size: int) -> Head:
    """Returns the head by the log alone: its last complete line."""
    last = Head()
    for line in iter_lines(log, 0, size):
        record = None if line.too_long or not line.complete else parse(line.data)
        if record is not None and record.intact:
            last = Head(record.seq, line.end, record.hash)
    return last


def _append_mark(handles: _Handles, head: Head, size: int, mark: str) -> Head:
    """Records a recovery as a line of the log's own, at the end."""
    kind = TORN if mark.startswith(TORN) else mark
    event = Event(
        call=new_id(),
        surface="audit",
        agent="toolyard",
        session="",
        tool="audit",
        kind="recovered",
        target=LOG_NAME,
        decision="",
        reason=_REASONS[kind],
        outcome=CallOutcome.OK if kind == TORN else CallOutcome.FAILED,
        code=0,
        milliseconds=0.0,
    )
    before = b"" if _ends_with_newline(handles.log, size) else b"\n"
    return _append_line(handles, head, event, mark=mark, size=size, before=before)[1]


def _ends_with_newline(log: int, size: int) -> bool:
    return size == 0 or os.pread(log, 1, size - 1) == b"\n"


def _log_fault(done: str, state_dir: str, error: OSError) -> SystemFault:
    return SystemFault(
        f"The audit log in {state_dir} could not be {done}: {error.strerror or error}.",
        hint="No tool runs without an audit record: free disk space or fix the folder's permissions, then try again.",
        retryable=True,
    )
