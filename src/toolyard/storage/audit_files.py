"""Opens the log's files and iterates over their lines, for the writer and the readers alike.

Nothing here trusts what it finds: a link, a pipe or a device in place of a file is refused without blocking on it,
and a line never takes more than LINE_BYTES of memory, however long it is.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from toolyard.core.errors import SecurityError, SystemFault, ToolError
from toolyard.core.limits import DEFAULT_LIMITS, KIB
from toolyard.storage.audit_format import DIGEST_BYTES, HEAD_BYTES, HEAD_NAME, LINE_BYTES, LOG_NAME, Head, digest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

PRIVATE_FILE = 0o600
READ_ONLY = os.O_RDONLY
READ_WRITE = os.O_RDWR | os.O_CREAT
APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND
BUFFER_BYTES = 256 * KIB
LOCK_POLL_SECONDS = 0.0005
"""Pause between two attempts at a lock that another writer holds for some microseconds."""
# A link could redirect the log; opening a pipe would hang.
_CAREFUL = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line without its newline. `data` is cut at LINE_BYTES; `digest` covers all its bytes."""

    number: int
    data: bytes
    end: int
    complete: bool
    long_digest: str = ""

    @property
    def too_long(self) -> bool:
        return bool(self.long_digest)

    @property
    def digest(self) -> str:
        return self.long_digest or digest(self.data)


def open_regular(name: str, flags: int, directory: int) -> int:
    """Opens a regular file in the folder. Raises SecurityError for anything else, OSError as open does."""
    try:
        handle = os.open(name, flags | _CAREFUL, PRIVATE_FILE, dir_fd=directory)
    except IsADirectoryError:
        raise _not_a_plain_file(name) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _not_a_plain_file(name)
    return handle


def _not_a_plain_file(name: str) -> SecurityError:
    return SecurityError(
        f"{name} in the state folder is not a plain file.",
        hint="Look at what was put there, move it away, and start again.",
    )


def lock(handle: int, operation: int, state_dir: str) -> None:
    """Takes the lock (LOCK_EX or LOCK_SH). Raises SystemFault if a stuck process holds it for too long."""
    deadline = 0.0
    while True:
        try:
            fcntl.flock(handle, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            deadline = deadline or time.monotonic() + DEFAULT_LIMITS.lock_seconds
            if time.monotonic() >= deadline:
                break
            time.sleep(LOCK_POLL_SECONDS)
        else:
            return
    raise SystemFault(
        f"Another process has held the audit log in {state_dir} for {DEFAULT_LIMITS.lock_seconds:g} seconds.",
        hint="Look for a stopped Toolyard process of this workspace and end it.",
        retryable=True,
    )


def read_head(handle: int) -> Head | None:
    """Returns the head, or None if it is empty or unreadable."""
    return Head.from_bytes(os.pread(handle, HEAD_BYTES + 1, 0))


def iter_lines(handle: int, start: int, end: int) -> Iterator[LogLine]:
    """Yields the lines between two positions of the file, numbered from 1. The last may be unfinished."""
    with open(handle, "rb", buffering=BUFFER_BYTES, closefd=False) as file:
        file.seek(start)
        number = 0
        while start < end:
            number += 1
            data = file.readline(min(LINE_BYTES, end - start))
            if not data:
                return  # the file was truncated while it was read
            start += len(data)
            if data.endswith(b"\n"):
                yield LogLine(number, data[:-1], start, complete=True)
                continue
            if start >= end or len(data) < LINE_BYTES:
                yield LogLine(number, data, start, complete=False)
                continue
            running, piece = blake2b(data, digest_size=DIGEST_BYTES), data
            while start < end and not piece.endswith(b"\n"):
                piece = file.readline(min(LINE_BYTES, end - start))
                if not piece:
                    break
                start += len(piece)
                running.update(piece.removesuffix(b"\n"))
            yield LogLine(number, data, start, piece.endswith(b"\n"), running.hexdigest())


def has_log(state_dir: str) -> bool:
    """Returns whether any call was recorded there; also if only the head is left."""
    return any(os.path.lexists(os.path.join(state_dir, name)) for name in (LOG_NAME, HEAD_NAME))


@contextmanager
def open_log(state_dir: str) -> Generator[tuple[int | None, int | None]]:
    """Opens the log and the head for reading; None for a missing one. Raises ToolError if both are missing."""
    handles: list[int] = []
    found: list[int | None] = []
    try:
        try:
            handles.append(directory := os.open(state_dir, READ_ONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            for name in (LOG_NAME, HEAD_NAME):
                try:
                    handles.append(handle := open_regular(name, READ_ONLY, directory))
                    found.append(handle)
                except FileNotFoundError:
                    found.append(None)
        except (FileNotFoundError, NotADirectoryError):
            found = [None, None]
        except OSError as error:
            raise unreadable_error(state_dir, error) from error
        log, head = found
        if log is None and head is None:
            raise ToolError(
                f"There is no audit log in {state_dir}.",
                hint="It begins with the first tool call in the workspace; check --workspace and --state.",
            )
        yield log, head
    finally:
        for handle in handles:
            os.close(handle)


def unreadable_error(state_dir: str, error: OSError) -> SystemFault:
    """Builds the error for a log that cannot be read."""
    return SystemFault(
        f"The audit log in {state_dir} cannot be read: {error.strerror or error}.",
        hint="Read it as the user it belongs to.",
    )
