"""The files of a skill: read, written and compared as a whole, by directory handles, without following links.

A `SkillTree` maps relative paths to contents. `__pycache__` and files whose names begin with a dot are not part of
it.
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

MAX_FILES, MAX_BYTES, MAX_DEPTH = 500, 16 * MIB, 8
"""MCP's skills extension requires clients to accept slightly more: 512 files, 16 MiB."""
_EXCLUDED_NAMES = frozenset({"__pycache__", "node_modules"})
_PLAIN_MODE, _EXECUTABLE_MODE = 0o644, 0o755
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class SkillFile:
    """The content of a file and its executable bit."""

    data: bytes
    executable: bool = False


SkillTree = Mapping[str, SkillFile]


def tree_from_bytes(files: Mapping[str, bytes]) -> dict[str, SkillFile]:
    """Returns a tree of plain files."""
    return {name: SkillFile(data) for name, data in files.items()}


def is_excluded(name: str) -> bool:
    """Whether a file or folder name never belongs to a skill."""
    return name.startswith(".") or name in _EXCLUDED_NAMES


def size_error(what: str) -> ToolError:
    """Returns the error for a skill beyond the limits."""
    return ToolError(
        f"{what} is larger than a skill may be: {MAX_FILES} files, {MAX_BYTES:,} bytes, {MAX_DEPTH} folders deep.",
        hint="Leave out what it does not need.",
    )


def read_tree(folder: int, what: str, *, strict: bool = True) -> dict[str, SkillFile]:
    """Reads every file of the open folder. Links and special files are refused, or skipped if not `strict`. Raises
    OSError.
    """
    reading = _TreeReader(what, strict)
    reading.read_folder(folder, "")
    return reading.tree


@dataclass(slots=True)
class _TreeReader:
    what: str
    strict: bool
    tree: dict[str, SkillFile] = field(default_factory=dict[str, SkillFile])
    bytes_left: int = MAX_BYTES
    folder_count: int = 0

    def read_folder(self, folder: int, inside: str) -> None:
        self.folder_count += 1
        if inside.count("/") > MAX_DEPTH or self.folder_count > MAX_FILES:
            raise size_error(self.what)
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if not is_excluded(entry.name))
        for name in names:
            path = inside + name
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                inner = os.open(name, OPEN_FOLDER, dir_fd=folder)
                try:
                    self.read_folder(inner, f"{path}/")
                finally:
                    os.close(inner)
            elif stat.S_ISREG(mode):
                self.tree[path] = self._read_file(folder, name)
            elif self.strict:
                kind = "a link" if stat.S_ISLNK(mode) else "a special file"
                raise ToolError(
                    f"{path} in {self.what} is {kind}; a skill has plain files only.", hint="Put a copy there."
                )
            if len(self.tree) > MAX_FILES:
                raise size_error(self.what)

    def _read_file(self, folder: int, name: str) -> SkillFile:
        fd = os.open(name, _OPEN_FILE, dir_fd=folder)
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise ToolError(f"{name} in {self.what} was replaced while it was read.", hint="Try again.")
            data = file.read(self.bytes_left + 1)
        self.bytes_left -= len(data)
        if self.bytes_left < 0:
            raise size_error(self.what)
        return SkillFile(data, bool(status.st_mode & stat.S_IXUSR))


def write_tree(folder: int, name: str, tree: SkillTree) -> None:
    """Writes the files into a new folder `name` inside the open one, or leaves nothing behind. Raises OSError."""
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


def _write_file(folder: int, path: str, file: SkillFile) -> None:
    *parents, name = path.split("/")
    if any(part in {"", ".", ".."} for part in (*parents, name)):
        raise ToolError(f"{path} is not a valid path in a skill.", hint="Use plain relative names.")
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
    """Removes a folder inside the open one, if it exists. Links are not followed."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(name, dir_fd=folder)


def tree_digest(tree: SkillTree) -> str:
    """Returns a hash of every path, mode and byte."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(tree):
        file = tree[path]
        for part in (os.fsencode(path), b"x" if file.executable else b"-", file.data):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
    return digest.hexdigest()
