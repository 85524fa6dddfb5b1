"""The note in a published tree: whose it is, which snapshot, and what the last publications changed.

It lies in the tree itself, so that it is switched together with it. Agents may read it, only the host writes it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, cast

from toolyard.core.limits import KIB

MANIFEST_FILE = ".toolyard-snapshot.json"
MAX_STEPS = 20
"""Publications that a note remembers. Who has missed more is told that much has changed."""
MAX_PATHS = 20
"""Changed files that are named for each."""
_MAX_BYTES = 512 * KIB
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class PublicationStep:
    """What one publication changed."""

    snapshot: str
    total: int | None
    """How many files; None where the snapshot before is gone and nobody can tell."""
    paths: tuple[str, ...] = ()
    """The first of them."""


@dataclass(frozen=True, slots=True)
class PublicationManifest:
    agent: str
    snapshot: str
    number: int
    time_ns: int
    """When the snapshot was taken."""
    tree: bytes
    mode: int
    stamp: str
    """What decided which files are shown. Trees of another stamp are made anew."""
    steps: tuple[PublicationStep, ...] = ()
    """The newest last."""

    def changes_since(self, snapshot: str) -> PublicationStep | None:
        """What changed after `snapshot`, all steps together. None: nothing did. Empty: since nothing was there."""
        if snapshot == self.snapshot:
            return None
        names = [step.snapshot for step in self.steps]
        if snapshot in names:
            after = self.steps[names.index(snapshot) + 1 :]
        elif not snapshot and len(self.steps) < MAX_STEPS:
            after = self.steps
        else:
            return PublicationStep(self.snapshot, None)
        if any(step.total is None for step in after):
            return PublicationStep(self.snapshot, None)
        paths = tuple(dict.fromkeys(path for step in after for path in step.paths))
        # A file that was changed twice counts once, as far as the files are named.
        unnamed = sum((step.total or 0) - len(step.paths) for step in after)
        return PublicationStep(self.snapshot, len(paths) + unnamed, paths)


def read_manifest(tree: int | str) -> PublicationManifest | None:
    """The note of the tree at a descriptor or path; None where there is none that can be understood."""
    try:
        fd = (
            os.open(MANIFEST_FILE, _READ, dir_fd=tree)
            if isinstance(tree, int)
            else os.open(os.path.join(tree, MANIFEST_FILE), _READ)
        )
    except OSError:
        return None
    try:
        data = os.read(fd, _MAX_BYTES)
    except OSError:
        return None
    finally:
        os.close(fd)
    try:
        return _decode_manifest(json.loads(data))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def write_manifest(tree: int, manifest: PublicationManifest) -> None:
    """The last thing that is written into a tree: one that has it is whole."""
    data = _encode_manifest(manifest, MAX_PATHS)
    most = MAX_PATHS
    while len(data) > _MAX_BYTES and most:  # paths may be long: of so large a note nobody would read the end
        most //= 2
        data = _encode_manifest(manifest, most)
    fd = os.open(MANIFEST_FILE, _NEW, 0o644, dir_fd=tree)
    with os.fdopen(fd, "wb") as file:
        file.write(data)


def _encode_manifest(manifest: PublicationManifest, max_paths: int) -> bytes:
    """With at most so many paths of each step: the others are only counted."""
    text = {
        "agent": manifest.agent,
        "snapshot": manifest.snapshot,
        "number": manifest.number,
        "time_ns": manifest.time_ns,
        "tree": manifest.tree.hex(),
        "mode": manifest.mode,
        "stamp": manifest.stamp,
        "changes": [
            [step.snapshot, step.total, list(step.paths[:max_paths])] for step in manifest.steps[-MAX_STEPS:]
        ],
    }
    return json.dumps(text).encode("utf-8") + b"\n"


def _decode_manifest(raw: object) -> PublicationManifest:
    if not isinstance(raw, dict):
        raise TypeError("no note")
    said = cast("dict[str, Any]", raw)
    return PublicationManifest(
        agent=str(said["agent"]),
        snapshot=str(said["snapshot"]),
        number=int(said["number"]),
        time_ns=int(said["time_ns"]),
        tree=bytes.fromhex(said["tree"]),
        mode=int(said["mode"]),
        stamp=str(said["stamp"]),
        steps=tuple(
            PublicationStep(str(name), None if total is None else int(total), tuple(map(str, paths)))
            for name, total, paths in said["changes"]
        ),
    )
