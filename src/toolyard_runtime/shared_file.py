"""Changes a file that the host and other sandboxes change too: under the folder's lock, and atomically.

The lock and the way to replace a file are the host's (`toolyard/files/file_io.py`): an exclusive `flock` on the
folder, new content under a temporary name that listings omit, synced, then renamed. A lock belongs to the descriptor
that is opened here, and is released with it however the process ends.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LOCK_SECONDS = 10.0
_FIRST_WAIT, _LONGEST_WAIT = 0.0005, 0.02
_TEMPORARY = ".toolyard-tmp-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_SAFE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CHUNK = 1 << 20


def read(folder: str, name: str, max_bytes: int) -> bytes | None:
    """Returns the content of a file; None if it does not exist."""
    try:
        at = os.open(folder, _FOLDER)
    except FileNotFoundError:
        return None
    try:
        return _read_content(at, folder, name, max_bytes)[0]
    finally:
        os.close(at)


def change(folder: str, name: str, transform: Callable[[bytes], bytes], max_bytes: int) -> None:
    """Replaces the file with what `transform` makes of its content. If that raises, nothing changes."""
    os.makedirs(folder, exist_ok=True)
    at = os.open(folder, _FOLDER)
    try:
        _lock(at, folder)
        before, mode = _read_content(at, folder, name, max_bytes)
        after = transform(before or b"")
        if len(after) > max_bytes:
            raise ValueError(f"{folder}/{name} would be larger than {max_bytes:,} bytes.")
        _replace(at, name, after, mode)
    finally:
        os.close(at)


def _read_content(at: int, folder: str, name: str, max_bytes: int) -> tuple[bytes | None, int | None]:
    """Returns the bytes and the mode of a regular file. A link is not followed: it could lead to another file."""
    try:
        fd = os.open(name, os.O_RDONLY | _SAFE_FLAGS, dir_fd=at)
    except FileNotFoundError:
        return None, None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", f"{folder}/{name}")
        parts: list[bytes] = []
        size = 0
        while chunk := os.read(fd, _CHUNK):
            parts.append(chunk)
            size += len(chunk)
            if size > max_bytes:
                raise ValueError(f"{folder}/{name} is larger than {max_bytes:,} bytes. It was left as it is.")
        return b"".join(parts), stat.S_IMODE(status.st_mode)
    finally:
        os.close(fd)


def _lock(at: int, folder: str) -> None:
    """Locks the folder. Polls with a deadline, so that another program's lock cannot block the code forever."""
    import fcntl
    import time

    deadline = time.monotonic() + LOCK_SECONDS
    wait = _FIRST_WAIT
    while True:
        try:
            fcntl.flock(at, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError(f"Another program keeps {folder} locked; nothing was written.") from None
            time.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)
        else:
            return


def _replace(at: int, name: str, data: bytes, mode: int | None) -> None:
    temporary = _TEMPORARY + os.urandom(8).hex()
    fd = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _SAFE_FLAGS, 0o666, dir_fd=at)
    try:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
            if mode is not None:
                os.fchmod(fd, mode)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, name, src_dir_fd=at, dst_dir_fd=at)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=at)
        raise
