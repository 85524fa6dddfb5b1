"""The manifest of a published tree: its agent, its snapshot, and the changes of the latest publications.

It is stored in the tree, so that both are switched together. Agents can read it; only the host writes it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, cast

from toolyard.core.limits import KIB

MANIFEST_FILE = ".toolyard-snapshot.json"
MAX_STEPS = 20
"""Publications that a manifest lists. An agent that missed more only learns that much has changed."""
MAX_PATHS = 20
"""Changed files that are listed for each publication."""
_MAX_BYTES = 512 * KIB
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class PublicationStep:
    """The changes of one publication."""

    snapshot: str
    total: int | None
    """How many files changed; None if the previous snapshot is gone, so that the number is unknown."""
    paths: tuple[str, ...] = ()
    """The first of the changed files."""


@dataclass(frozen=True, slots=True)
class PublicationManifest:
    """What an agent has published."""

    agent: str
    snapshot: str
    number: int
    time_ns: int
    """When the snapshot was taken."""
    tree: bytes
    mode: int
    stamp: str
    """Identifies the rules that decided which files are shown. Trees with another stamp are rebuilt."""
    steps: tuple[PublicationStep, ...] = ()
    """The latest step is last."""

    def changes_since(self, snapshot: str) -> PublicationStep | None:
        """Returns all changes after `snapshot` as one step, or None if there are none. Empty means since the first
        publication.
        """
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
        # A file that was changed twice counts once, if it is listed by name.
        unnamed = sum((step.total or 0) - len(step.paths) for step in after)
        return PublicationStep(self.snapshot, len(paths) + unnamed, paths)


def read_manifest(tree: int | str) -> PublicationManifest | None:
    """Returns the manifest of the tree at a descriptor or path, or None if it is missing or invalid."""
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
    """Writes the manifest. This comes last: a tree with a manifest is complete."""
    data = _encode_manifest(manifest, MAX_PATHS)
    most = MAX_PATHS
    while len(data) > _MAX_BYTES and most:  # paths may be long, and readers stop at this size
        most //= 2
        data = _encode_manifest(manifest, most)
    fd = os.open(MANIFEST_FILE, _NEW, 0o644, dir_fd=tree)
    with os.fdopen(fd, "wb") as file:
        file.write(data)


def _encode_manifest(manifest: PublicationManifest, max_paths: int) -> bytes:
    """Encodes the manifest with at most `max_paths` paths per step. The totals stay."""
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
        raise TypeError("a manifest has to be a JSON object")
    fields = cast("dict[str, Any]", raw)
    return PublicationManifest(
        agent=str(fields["agent"]),
        snapshot=str(fields["snapshot"]),
        number=int(fields["number"]),
        time_ns=int(fields["time_ns"]),
        tree=bytes.fromhex(fields["tree"]),
        mode=int(fields["mode"]),
        stamp=str(fields["stamp"]),
        steps=tuple(
            PublicationStep(str(name), None if total is None else int(total), tuple(map(str, paths)))
            for name, total, paths in fields["changes"]
        ),
    )
