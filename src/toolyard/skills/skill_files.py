"""The files of a skill: read, written and compared whole, by directory handle, without any link.

A Tree is data: relative path to content. Python's own leavings (`__pycache__`) are no part of it, nor are files whose
names begin with a dot.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field

from toolyard.core.errors import ToolError
from toolyard.core.limits import MIB
from toolyard.files.roots import FOLDER_MODE, OPEN_FOLDER

MOST_FILES, MOST_BYTES, MOST_DEPTH = 500, 16 * MIB, 8
"""What every client of the protocol's extension for skills has to take is a little more: 512 files, 16 MiB."""
_LEFT_OUT = frozenset({"__pycache__", "node_modules"})
_PLAIN_MODE, _EXECUTABLE_MODE = 0o644, 0o755
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class File:
    data: bytes
    executable: bool = False


Tree = Mapping[str, File]


def tree_of(files: Mapping[str, bytes]) -> dict[str, File]:
    return {name: File(data) for name, data in files.items()}


def is_left_out(name: str) -> bool:
    return name.startswith(".") or name in _LEFT_OUT


def too_much(what: str) -> ToolError:
    return ToolError(
        f"{what} is larger than a skill may be: {MOST_FILES} files, {MOST_BYTES:,} bytes, {MOST_DEPTH} folders deep.",
        hint="Leave out what it does not need.",
    )


def read_tree(folder: int, what: str, *, strict: bool = True) -> dict[str, File]:
    """Everything in the open folder. Links and special files are refused by name, or left out. Raises OSError."""
    reading = _Reading(what, strict)
    reading.folder(folder, "")
    return reading.tree


@dataclass(slots=True)
class _Reading:
    what: str
    strict: bool
    tree: dict[str, File] = field(default_factory=dict[str, File])
    left: int = MOST_BYTES
    folders: int = 0

    def folder(self, folder: int, inside: str) -> None:
        self.folders += 1
        if inside.count("/") > MOST_DEPTH or self.folders > MOST_FILES:
            raise too_much(self.what)
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if not is_left_out(entry.name))
        for name in names:
            path = inside + name
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                inner = os.open(name, OPEN_FOLDER, dir_fd=folder)
                try:
                    self.folder(inner, f"{path}/")
                finally:
                    os.close(inner)
            elif stat.S_ISREG(mode):
                self.tree[path] = self._file(folder, name)
            elif self.strict:
                kind = "a link" if stat.S_ISLNK(mode) else "a special file"
                raise ToolError(
                    f"{path} in {self.what} is {kind}; a skill has plain files only.", hint="Put a copy there."
                )
            if len(self.tree) > MOST_FILES:
                raise too_much(self.what)

    def _file(self, folder: int, name: str) -> File:
        fd = os.open(name, _OPEN_FILE, dir_fd=folder)
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise ToolError(f"{name} in {self.what} was replaced while it was read.", hint="Try again.")
            data = file.read(self.left + 1)
        self.left -= len(data)
        if self.left < 0:
            raise too_much(self.what)
        return File(data, bool(status.st_mode & stat.S_IXUSR))


def write_tree(folder: int, name: str, tree: Tree) -> None:
    """Write the files into a new folder of that name in the open one, or leave nothing. Raises OSError."""
    os.mkdir(name, FOLDER_MODE, dir_fd=folder)
    try:
        fd = os.open(name, OPEN_FOLDER, dir_fd=folder)
        try:
            for path, file in tree.items():
                _write_file(fd, path, file)
            os.fsync(fd)
        finally:
            os.close(fd)
    except BaseException:
        remove_tree(folder, name)
        raise


def _write_file(folder: int, path: str, file: File) -> None:
    *parents, name = path.split("/")
    if any(part in {"", ".", ".."} for part in (*parents, name)):
        raise ToolError(f"{path} is no place in a skill.", hint="Use plain relative names.")
    here = os.dup(folder)
    try:
        for parent in parents:
            with contextlib.suppress(FileExistsError):
                os.mkdir(parent, FOLDER_MODE, dir_fd=here)
            inner = os.open(parent, OPEN_FOLDER, dir_fd=here)
            os.close(here)
            here = inner
        mode = _EXECUTABLE_MODE if file.executable else _PLAIN_MODE
        with open(os.open(name, _NEW_FILE, mode, dir_fd=here), "wb") as out:
            out.write(file.data)
            out.flush()
            os.fsync(out.fileno())
    finally:
        os.close(here)


def remove_tree(folder: int, name: str) -> None:
    """Remove a folder in the open one. By handle: rmtree follows no link. Nothing when it is not there."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(name, dir_fd=folder)


def digest_of(tree: Tree) -> str:
    """Changes with every byte, name and mode of it."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(tree):
        file = tree[path]
        for part in (os.fsencode(path), b"x" if file.executable else b"-", file.data):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
    return digest.hexdigest()
