"""The note in a published tree: whose it is, which snapshot, and what the last publications changed.

It lies in the tree itself, so that it is switched together with it. Agents may read it, only the host writes it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, cast

from toolyard.core.limits import KIB

NOTE = ".toolyard-snapshot.json"
MOST_STEPS = 20
"""Publications that a note remembers. Who has missed more is told that much has changed."""
MOST_PATHS = 20
"""Changed files that are named for each."""
_MOST_BYTES = 512 * KIB
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Step:
    """What one publication changed."""

    snapshot: str
    total: int | None
    """How many files; None where the snapshot before is gone and nobody can tell."""
    paths: tuple[str, ...] = ()
    """The first of them."""


@dataclass(frozen=True, slots=True)
class Published:
    agent: str
    snapshot: str
    number: int
    time_ns: int
    """When the snapshot was taken."""
    tree: bytes
    mode: int
    stamp: str
    """What decided which files are shown. Trees of another stamp are made anew."""
    steps: tuple[Step, ...] = ()
    """The newest last."""

    def since(self, snapshot: str) -> Step | None:
        """What changed after `snapshot`, all steps together. None: nothing did. Empty: since nothing was there."""
        if snapshot == self.snapshot:
            return None
        names = [step.snapshot for step in self.steps]
        if snapshot in names:
            after = self.steps[names.index(snapshot) + 1 :]
        elif not snapshot and len(self.steps) < MOST_STEPS:
            after = self.steps
        else:
            return Step(self.snapshot, None)
        if any(step.total is None for step in after):
            return Step(self.snapshot, None)
        paths = tuple(dict.fromkeys(path for step in after for path in step.paths))
        # A file that was changed twice counts once, as far as the files are named.
        unnamed = sum((step.total or 0) - len(step.paths) for step in after)
        return Step(self.snapshot, len(paths) + unnamed, paths)


def read_note(tree: int | str) -> Published | None:
    """The note of the tree at a descriptor or path; None where there is none that can be understood."""
    try:
        fd = os.open(NOTE, _READ, dir_fd=tree) if isinstance(tree, int) else os.open(os.path.join(tree, NOTE), _READ)
    except OSError:
        return None
    try:
        data = os.read(fd, _MOST_BYTES)
    except OSError:
        return None
    finally:
        os.close(fd)
    try:
        return _decoded(json.loads(data))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def write_note(tree: int, note: Published) -> None:
    """The last thing that is written into a tree: one that has it is whole."""
    data = _encoded(note, MOST_PATHS)
    most = MOST_PATHS
    while len(data) > _MOST_BYTES and most:  # paths may be long: of so large a note nobody would read the end
        most //= 2
        data = _encoded(note, most)
    fd = os.open(NOTE, _NEW, 0o644, dir_fd=tree)
    with os.fdopen(fd, "wb") as file:
        file.write(data)


def _encoded(note: Published, most: int) -> bytes:
    """With at most so many paths of each step: the others are only counted."""
    text = {
        "agent": note.agent,
        "snapshot": note.snapshot,
        "number": note.number,
        "time_ns": note.time_ns,
        "tree": note.tree.hex(),
        "mode": note.mode,
        "stamp": note.stamp,
        "changes": [[step.snapshot, step.total, list(step.paths[:most])] for step in note.steps[-MOST_STEPS:]],
    }
    return json.dumps(text).encode("utf-8") + b"\n"


def _decoded(raw: object) -> Published:
    if not isinstance(raw, dict):
        raise TypeError("no note")
    said = cast("dict[str, Any]", raw)
    return Published(
        agent=str(said["agent"]),
        snapshot=str(said["snapshot"]),
        number=int(said["number"]),
        time_ns=int(said["time_ns"]),
        tree=bytes.fromhex(said["tree"]),
        mode=int(said["mode"]),
        stamp=str(said["stamp"]),
        steps=tuple(
            Step(str(name), None if total is None else int(total), tuple(map(str, paths)))
            for name, total, paths in said["changes"]
        ),
    )
