"""A folder of generated files in the workspace: `servers/` or `tools/`.

A marker in it and a record in the state folder say that it belongs to Toolyard. A folder of that name that the user
made is left unchanged, and the generated one goes below `.toolyard/` instead. All access uses directory handles, so
that nothing an agent leaves in the workspace can redirect a write. A server's folder is written beside the old one
and replaces it in one step: imports see either the old files or the new ones. Git ignores the folder, ripgrep does
not.
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
"""The size and modification time of each file, to detect changes by others."""


def generated_path(workspace: str, name: str, state: str) -> str:
    """Returns the path of the generated folder `name`, relative to the workspace.

    `state` is the state folder of the workspace.
    """
    path = os.path.join(workspace, name)
    try:
        with os.scandir(path) as entries:
            names = {entry.name for entry in entries}
    except FileNotFoundError:
        return name
    except OSError:  # a file, a link loop, or an unreadable folder
        return f"{FALLBACK_FOLDER}/{name}"
    if os.path.islink(path) or (names and not _is_own_folder(path, name, names, state)):
        return f"{FALLBACK_FOLDER}/{name}"
    return name


def _is_own_folder(path: str, name: str, names: set[str], state: str) -> bool:
    if MARKER not in names:
        return False
    return is_marker_recorded(state, name, os.path.join(path, MARKER)) or holds_only_generated_files(path)


def is_generated(workspace: str, name: str, state: str) -> bool:
    """Whether the generated folder `name` exists."""
    return os.path.lexists(os.path.join(workspace, generated_path(workspace, name, state), MARKER))


class GeneratedFolder(Closeable):
    """A generated folder, open for writing until `close()`. The caller ensures that only one process writes."""

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
        """Refuses a folder that replaced ours between the check and the opening."""
        names = set(os.listdir(self._fd))
        if names and not _is_own_folder(f"/proc/self/fd/{self._fd}", name, names, state):
            self.close()
            raise SystemFault(
                f"The folder {name} was replaced before its tool files were written.",
                hint="Run `toolyard sync` again once nothing else changes the workspace.",
            )

    def ensure_file(self, name: str, text: str) -> bool:
        """Writes a file of the folder itself. Returns False if it already had this text."""
        data = text.encode()
        if _has_content(self._fd, name, data):
            return False
        replace_file(self._fd, name, data)
        return True

    def replace_folder(self, name: str, files: Mapping[str, str]) -> Stamps:
        """Replaces the subfolder `name` by one with these files."""
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
        """Like `replace_folder`, unless the folder has exactly these files. Returns the number of files written."""
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
        """Moves `new` into place. Afterwards `new` is the former folder, or gone."""
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
            os.unlink(name, dir_fd=self._fd)  # a link or a file of another program
        except FileNotFoundError:
            return
        except (IsADirectoryError, PermissionError):
            shutil.rmtree(name, dir_fd=self._fd)

    def entry_names(self) -> set[str]:
        """Returns the names in the folder except our fixed files: server folders, and leftovers of killed writers."""
        with os.scandir(self._fd) as entries:
            return {entry.name for entry in entries if entry.name not in FIXED_FILES}

    def is_intact(self, name: str, stamps: Stamps) -> bool:
        """Whether a subfolder has exactly the files that were written."""
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
    """Whether a file in the folder has exactly this content."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return False
    with open(fd, "rb") as file:
        return stat.S_ISREG(os.fstat(fd).st_mode) and file.read(len(data) + 1) == data


def _write_stamped(folder: int, name: str, text: str) -> tuple[int, int]:
    status = write_new_file(folder, name, text.encode("utf-8", "replace"))
    return status.st_size, status.st_mtime_ns
