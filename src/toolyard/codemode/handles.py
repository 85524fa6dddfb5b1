"""Files of ours beneath a root, written by handle: no link that an agent leaves there leads a write elsewhere."""

from __future__ import annotations

import contextlib
import os
import secrets

from toolyard.fs.roots import Root

FOLDER_MODE = 0o755
OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_MODE = 0o644
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME_CHARS = 100
"""Of a name, in that of a file that is to take its place: both have to fit a file system."""


def made(root: Root, relative: str) -> int:
    """A handle on a folder beneath the root, made where it is missing, without going through any link. OSError."""
    folder = os.open(f"/proc/self/fd/{root.fd}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in relative.split("/"):
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, FOLDER_MODE, dir_fd=folder)
            inner = os.open(name, OPEN_FOLDER, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def fresh_name(name: str) -> str:
    """For what is to take the place of `name`."""
    return f".{name[:_NAME_CHARS]}.{secrets.token_hex(4)}"


def written(folder: int, name: str, data: bytes, *, synced: bool = False) -> os.stat_result:
    """Make a new file, on the disk before this returns where it is to be `synced`."""
    fd = os.open(name, _NEW_FILE, _FILE_MODE, dir_fd=folder)
    with open(fd, "wb", buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]
        if synced:
            os.fsync(fd)
        return os.fstat(fd)


def replaced(folder: int, name: str, data: bytes, *, synced: bool = False) -> None:
    """Put a file with this content in the place of the one called `name`, in one step."""
    new = fresh_name(name)
    try:
        written(folder, new, data, synced=synced)
        os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new, dir_fd=folder)
        raise
