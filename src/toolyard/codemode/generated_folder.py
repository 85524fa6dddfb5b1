"""A folder of the workspace that holds generated files: `servers/`, `tools/`.

It is ours alone, which a mark in it and a record in the state folder say; a folder of that name that the user made is
left as it is, and ours goes below `.toolyard/` instead. Everything goes through directory handles, so nothing an
agent leaves in the workspace can lead a write elsewhere. A server's folder is written whole beside the old one and
takes its place in one step: who imports from it meanwhile sees the old files or the new ones. Git leaves the folder
out, ripgrep does not.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Mapping

from toolyard.codemode.folder_ownership import (
    FIXED_FILES,
    MARKER,
    holds_only_generated_files,
    is_marker_recorded,
    record_marker,
)
from toolyard.codemode.safe_write import replace_file, temporary_sibling, write_new_file
from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault
from toolyard.files.roots import FOLDER_MODE, OPEN_FOLDER, Root
from toolyard.linux.renameat2 import exchange

SERVERS, TOOLS = "servers", "tools"
"""The folders of generated files."""
FALLBACK_FOLDER = ".toolyard"

Stamps = Mapping[str, tuple[int, int]]
"""Each file's size and time of writing: how it is told whether somebody has changed it."""


def generated_path(workspace: str, name: str, state: str) -> str:
    """Where in the workspace the generated folder `name` is or would be, relative to it.

    `state` is the state folder of the workspace.
    """
    path = os.path.join(workspace, name)
    try:
        with os.scandir(path) as entries:
            names = {entry.name for entry in entries}
    except FileNotFoundError:
        return name
    except OSError:  # a file, a link in a loop, a folder that is closed to us
        return f"{FALLBACK_FOLDER}/{name}"
    if os.path.islink(path) or (names and not _is_own_folder(path, name, names, state)):
        return f"{FALLBACK_FOLDER}/{name}"
    return name


def _is_own_folder(path: str, name: str, names: set[str], state: str) -> bool:
    if MARKER not in names:
        return False
    return is_marker_recorded(state, name, os.path.join(path, MARKER)) or holds_only_generated_files(path)


def is_generated(workspace: str, name: str, state: str) -> bool:
    """Whether the generated folder `name` was ever made."""
    return os.path.lexists(os.path.join(workspace, generated_path(workspace, name, state), MARKER))


class GeneratedFolder(Closeable):
    """Open for writing until `close()`. One process writes at a time; that is its owner's affair."""

    def __init__(self, root: Root, name: str, state: str) -> None:
        self.path = generated_path(root.path, name, state)
        self._fd = _open_folder(root, self.path)
        if self.path == name:
            self._check_ownership(name, state)
        for file, text in FIXED_FILES.items():
            self.ensure_file(file, text)
        if self.path == name:
            record_marker(state, name, os.stat(MARKER, dir_fd=self._fd, follow_symlinks=False))

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _check_ownership(self, name: str, state: str) -> None:
        """Refuse a folder that took the place of ours between the look at it and its opening."""
        names = set(os.listdir(self._fd))
        if names and not _is_own_folder(f"/proc/self/fd/{self._fd}", name, names, state):
            self.close()
            raise SystemFault(
                f"The folder {name} was replaced while tool files were to be written.",
                hint="Run `toolyard sync` again once nothing else changes the workspace.",
            )

    def ensure_file(self, name: str, text: str) -> bool:
        """Make a file of the folder itself have this text. Whether it had another."""
        data = text.encode()
        if _has_content(self._fd, name, data):
            return False
        replace_file(self._fd, name, data)
        return True

    def replace_folder(self, name: str, files: Mapping[str, str]) -> Stamps:
        """Put a folder of these files in the place of the one called `name`."""
        new = temporary_sibling(name)
        os.mkdir(new, FOLDER_MODE, dir_fd=self._fd)
        try:
            fd = os.open(new, OPEN_FOLDER, dir_fd=self._fd)
            try:
                stamps = {file: _write_stamped(fd, file, text) for file, text in files.items()}
            finally:
                os.close(fd)
            self._swap_in(new, name)
        finally:
            self.remove(new)
        return stamps

    def update_folder(self, name: str, files: Mapping[str, str]) -> int:
        """As `replace_folder`, unless the folder has exactly these files already. How many were written."""
        try:
            fd = os.open(name, OPEN_FOLDER, dir_fd=self._fd)
        except OSError:
            is_same = False
        else:
            try:
                is_same = set(os.listdir(fd)) - {"__pycache__"} == set(files) and all(
                    _has_content(fd, file, text.encode("utf-8", "replace")) for file, text in files.items()
                )
            finally:
                os.close(fd)
        if is_same:
            return 0
        self.replace_folder(name, files)
        return len(files)

    def _swap_in(self, new: str, name: str) -> None:
        """Afterwards `new` is what was there before, or is gone."""
        try:
            exchange(new, name, self._fd)
        except FileNotFoundError:
            os.rename(new, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except OSError as error:
            if error.errno not in {errno.EINVAL, errno.ENOSYS}:
                raise
            self.remove(name)
            os.rename(new, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def remove(self, name: str) -> None:
        try:
            os.unlink(name, dir_fd=self._fd)  # a link or a file somebody put there
        except FileNotFoundError:
            return
        except (IsADirectoryError, PermissionError):
            shutil.rmtree(name, dir_fd=self._fd)

    def entry_names(self) -> set[str]:
        """What lies in it beside our own marks: the folders of servers, and what was left by a killed writer."""
        with os.scandir(self._fd) as entries:
            return {entry.name for entry in entries if entry.name not in FIXED_FILES}

    def is_intact(self, name: str, stamps: Stamps) -> bool:
        """Whether a folder holds exactly what was written."""
        try:
            fd = os.open(name, OPEN_FOLDER, dir_fd=self._fd)
        except OSError:
            return False
        try:
            with os.scandir(fd) as entries:
                found = {entry.name: entry.stat(follow_symlinks=False) for entry in entries}
        finally:
            os.close(fd)
        found.pop("__pycache__", None)
        return found.keys() == stamps.keys() and all(
            stat.S_ISREG(status.st_mode) and (status.st_size, status.st_mtime_ns) == tuple(stamps[file])
            for file, status in found.items()
        )


def _open_folder(root: Root, relative: str) -> int:
    try:
        return root.make_folder(relative)
    except OSError as error:
        raise SystemFault(
            f"The folder {os.path.join(root.path, relative)} cannot be used for tool files: {error.strerror}.",
            hint="It must be a plain folder that you may write.",
        ) from error


def _has_content(folder: int, name: str, data: bytes) -> bool:
    """Whether a file of the folder has exactly this content."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return False
    with open(fd, "rb") as file:
        return stat.S_ISREG(os.fstat(fd).st_mode) and file.read(len(data) + 1) == data


def _write_stamped(folder: int, name: str, text: str) -> tuple[int, int]:
    status = write_new_file(folder, name, text.encode("utf-8", "replace"))
    return status.st_size, status.st_mtime_ns
