"""Files of ours, written into open folders: no link that an agent leaves there leads a write elsewhere."""

from __future__ import annotations

import contextlib
import os
import secrets

_FILE_MODE = 0o644
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME_CHARS = 100
"""Of a name, in that of a file that is to take its place: both have to fit a file system."""


def temporary_sibling(name: str) -> str:
    """For what is to take the place of `name`."""
    return f".{name[:_NAME_CHARS]}.{secrets.token_hex(4)}"


def write_new_file(folder: int, name: str, data: bytes) -> os.stat_result:
    """Make a new file."""
    fd = os.open(name, _NEW_FILE, _FILE_MODE, dir_fd=folder)
    with open(fd, "wb", buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]
        return os.fstat(fd)


def replace_file(folder: int, name: str, data: bytes) -> None:
    """Put a file with this content in the place of the one called `name`, in one step."""
    new = temporary_sibling(name)
    try:
        write_new_file(folder, new, data)
        os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new, dir_fd=folder)
        raise
