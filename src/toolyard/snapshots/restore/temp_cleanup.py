"""Removes temporary files that a killed process left in a folder.

A writer holds the folder's lock, so temporary files in an unlocked folder are leftovers. A temporary folder was made
by a restore and can go. A temporary file may be the one that was about to be replaced when the kill came: it is
removed if the store has its content. One that no snapshot contains gets a visible name, because it may be the user's
work.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from collections.abc import Callable, Sequence

from toolyard.files.root_folder import RootFolder, join_path, split_path
from toolyard.files.temp_names import TEMPORARY_PREFIX
from toolyard.linux.renameat2 import rename_without_replacing
from toolyard.snapshots.archive.file_reader import FileContent, FileReader
from toolyard.snapshots.archive.stat_cache import stat_entry
from toolyard.snapshots.diff.live_tree import NullSink

KEPT_PREFIX = "toolyard-kept-"
_OURS = re.compile(re.escape(TEMPORARY_PREFIX.encode()) + rb"([0-9a-f]{16})")
_WORKING_MODE = 0o700


def clear_leftovers(root: RootFolder, paths: Sequence[bytes], is_stored: Callable[[bytes], bool]) -> None:
    """Removes the temporary files at `paths` that no process uses. `is_stored`: whether the store has an object."""
    for path in paths:
        folder, name = split_path(path)
        match = _OURS.fullmatch(name)
        if match is None:
            continue
        with contextlib.suppress(OSError):  # locked by a writer, already gone, or not permitted
            fd = root.open(folder)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _clear(root, fd, path, match[1].decode(), is_stored)
            finally:
                os.close(fd)


def _clear(root: RootFolder, fd: int, path: bytes, mark: str, is_stored: Callable[[bytes], bool]) -> None:
    _, name = split_path(path)
    status = os.stat(name, dir_fd=fd, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        remove_folder(root, path)
    elif not stat.S_ISREG(status.st_mode) or _is_file_stored(fd, name, status, is_stored):
        os.unlink(name, dir_fd=fd)
    else:
        rename_without_replacing(os.fsdecode(name), fd, KEPT_PREFIX + mark, fd)


def _is_file_stored(fd: int, name: bytes, status: os.stat_result, is_stored: Callable[[bytes], bool]) -> bool:
    reader = FileReader(NullSink())
    content = reader.read(fd, stat_entry(os.fsdecode(name), status))
    reader.flush()
    return isinstance(content, FileContent) and not content.torn and is_stored(content.ref)


def remove_folder(root: RootFolder, path: bytes) -> None:
    """Removes a folder with everything in it, by handle. OSError if not all of it can be removed."""
    folders = [path]
    for folder in folders:
        fd = _open_with_access(root, folder)
        try:
            for name in map(os.fsencode, os.listdir(fd)):
                if stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                    folders.append(join_path(folder, name))
                else:
                    os.unlink(name, dir_fd=fd)
        finally:
            os.close(fd)
    for folder in reversed(folders):
        above, name = split_path(folder)
        fd = root.open(above)
        try:
            os.rmdir(name, dir_fd=fd)
        finally:
            os.close(fd)


def _open_with_access(root: RootFolder, folder: bytes) -> int:
    """Opens a folder of ours after giving its owner access: its mode may deny it."""
    above, name = split_path(folder)
    fd = root.open(above)
    try:
        own = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
        try:
            os.chmod(f"/proc/self/fd/{own}", _WORKING_MODE)
        finally:
            os.close(own)
    finally:
        os.close(fd)
    return root.open(folder)
