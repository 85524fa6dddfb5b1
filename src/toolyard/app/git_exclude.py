"""Adds the links that Toolyard makes to a repository's `.git/info/exclude`, once.

Existing lines of that file stay, and no symbolic link is followed. Git works without the added lines, so a failure is
ignored.
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
    """Makes the git repository at `folder` ignore links of these names; does nothing without a repository.

    In a worktree `.git` is a file that points to another folder: it is left alone.
    """
    with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
        git = _close_later(stack, os.open(".git", _FOLDER_FLAGS, dir_fd=folder))
        os.stat("HEAD", dir_fd=git, follow_symlinks=False)
        with contextlib.suppress(FileExistsError):
            os.mkdir("info", dir_fd=git)
        info = _close_later(stack, os.open("info", _FOLDER_FLAGS, dir_fd=git))
        file = _close_later(stack, os.open("exclude", _FILE_FLAGS, 0o644, dir_fd=info))
        status = os.fstat(file)
        # A file with several hard links may belong to another folder.
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_size <= _MAX_BYTES:
            # Another process that holds the lock adds the same lines, so this one does not wait.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _add_patterns(file, os.pread(file, _MAX_BYTES, 0), names)


def _close_later(stack: contextlib.ExitStack, descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


def _add_patterns(file: int, content: bytes, names: Iterable[str]) -> None:
    existing = {line.strip() for line in content.splitlines()}
    missing = [name for name in names if f"/{name}".encode() not in existing]
    if missing:
        # The second pattern re-includes real folders: git treats a link as a file.
        lines = [_HEADING, *(line for name in missing for line in (f"/{name}", f"!/{name}/"))]
        start = "\n" if content and not content.endswith(b"\n") else ""
        os.write(file, (start + "\n".join(lines) + "\n").encode())
