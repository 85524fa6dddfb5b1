"""Writes files into open folders, so that links left by an agent cannot redirect a write."""

from __future__ import annotations

import contextlib
import os
import secrets

_FILE_MODE = 0o644
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME_CHARS = 100
"""Characters of the original name in a temporary name: both have to fit the file system's limit."""


def temporary_sibling(name: str) -> str:
    """Returns a temporary name for a file that will replace `name`."""
    return f".{name[:_NAME_CHARS]}.{secrets.token_hex(4)}"


def write_new_file(folder: int, name: str, data: bytes) -> os.stat_result:
    """Creates a new file with this content."""
    fd = os.open(name, _NEW_FILE, _FILE_MODE, dir_fd=folder)
    with open(fd, "wb", buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]
        return os.fstat(fd)


def replace_file(folder: int, name: str, data: bytes) -> None:
    """Replaces the file `name` by one with this content, in one step."""
    new = temporary_sibling(name)
    try:
        write_new_file(folder, new, data)
        os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new, dir_fd=folder)
        raise
