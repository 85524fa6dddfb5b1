"""Whether a folder of generated files is Toolyard's, although agents may write where it lies.

A mark in the folder alone proves nothing: an agent can put one into a folder of the user's, and the next sync would
replace what is in it. So the state folder, which no agent can write, has the inode and the change time of each mark
that Toolyard wrote. A marked folder without such a record (of an older version, copied, or with another state folder)
counts where it holds nothing but generated files, of which nothing can be lost.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Final, cast

from toolyard.codemode.handles import replaced
from toolyard.fs.roots import OPEN_FOLDER
from toolyard.storage.state import ensure_state_dir

RECORD: Final = "generated.json"
_HEAD_BYTES: Final = 4_096
_INDEXES: Final = frozenset({"INDEX.md", "index.json"})
_SIGNS: Final = (b"toolyard_runtime", b"__mcp_server__")
"""Every generated module has one of them near its start; a package's own `__init__.py` may be empty."""


def record_mark(state: str, name: str, mark: os.stat_result) -> None:
    """Note that the mark in the folder `name` was written by Toolyard."""
    found = _recorded(state)
    if found.get(name) == _identity(mark):
        return
    fd = os.open(ensure_state_dir(state), OPEN_FOLDER)
    try:
        replaced(fd, RECORD, json.dumps({**found, name: _identity(mark)}).encode())
    finally:
        os.close(fd)


def is_recorded(state: str, name: str, mark: str) -> bool:
    try:
        return _recorded(state).get(name) == _identity(os.lstat(mark))
    except OSError:
        return False


def holds_only_generated_files(folder: str, *, is_top: bool = True) -> bool:
    """Whether every file in it is one that Toolyard generates. `is_top`: it may hold folders and our marks."""
    try:
        with os.scandir(folder) as entries:
            return all(_is_generated(entry, is_top=is_top) for entry in entries)
    except OSError:
        return False


def _is_generated(entry: os.DirEntry[str], *, is_top: bool) -> bool:
    if entry.is_dir(follow_symlinks=False):
        return entry.name == "__pycache__" or (is_top and holds_only_generated_files(entry.path, is_top=False))
    if not entry.is_file(follow_symlinks=False):
        return False
    if entry.name in _INDEXES or (is_top and entry.name.startswith(".")):
        return True
    if not entry.name.endswith(".py"):
        return False
    with open(entry.path, "rb") as file:
        head = file.read(_HEAD_BYTES)
    return any(sign in head for sign in _SIGNS) or (entry.name == "__init__.py" and not head)


def _identity(mark: os.stat_result) -> list[int]:
    return [mark.st_ino, mark.st_ctime_ns]


def _recorded(state: str) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError), open(os.path.join(state, RECORD), encoding="utf-8") as file:
        found: Any = json.load(file)
        if isinstance(found, dict):
            return cast("dict[str, Any]", found)
    return {}
