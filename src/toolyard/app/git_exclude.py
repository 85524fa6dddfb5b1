"""Our links stay out of a user's git repository: `.git/info/exclude` gets a few lines, once.

What stands in that file is left as it is, and nothing is reached through a link. Git goes on without the lines, so
where they cannot be added nobody is told.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterable

_FOLDER_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAX_BYTES = 1 << 20
_HEADING = "# Links to Toolyard's folders. A folder of yours in the place of one is not ignored."


def exclude_links(folder: int, names: Iterable[str]) -> None:
    """Have the repository whose top is `folder` ignore links of these names; where there is none, nothing is done.

    The `.git` of a worktree is a file, and leads elsewhere: that one is left alone.
    """
    with contextlib.ExitStack() as opened, contextlib.suppress(OSError):
        git = _close_later(opened, os.open(".git", _FOLDER_FLAGS, dir_fd=folder))
        os.stat("HEAD", dir_fd=git, follow_symlinks=False)
        with contextlib.suppress(FileExistsError):
            os.mkdir("info", dir_fd=git)
        info = _close_later(opened, os.open("info", _FOLDER_FLAGS, dir_fd=git))
        file = _close_later(opened, os.open("exclude", _FILE_FLAGS, 0o644, dir_fd=info))
        status = os.fstat(file)
        # A file with a second name may be a file of somewhere else.
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_size <= _MAX_BYTES:
            # Whoever holds the lock is adding the same lines: it is not waited for.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _add_patterns(file, os.pread(file, _MAX_BYTES, 0), names)


def _close_later(stack: contextlib.ExitStack, descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


def _add_patterns(file: int, content: bytes, names: Iterable[str]) -> None:
    there = {line.strip() for line in content.splitlines()}
    wanted = [name for name in names if f"/{name}".encode() not in there]
    if wanted:
        # The second pattern of each takes folders out again: git takes a link for a file.
        lines = [_HEADING, *(line for name in wanted for line in (f"/{name}", f"!/{name}/"))]
        start = "\n" if content and not content.endswith(b"\n") else ""
        os.write(file, (start + "\n".join(lines) + "\n").encode())
