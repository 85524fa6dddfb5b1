"""What git keeps for itself, counted a repository at a time: told path by path it would drown everything else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from toolyard.snapshots.diff.tree_diff import PathChange
from toolyard.snapshots.store.objects import EntryKind

_GIT = b".git"


@dataclass(frozen=True, slots=True)
class CollapsedGitFolder:
    """A `.git` folder in which so many paths changed."""

    path: bytes
    count: int


def collapse_git_folders(
    changes: Iterable[PathChange], below: bytes
) -> tuple[list[PathChange], tuple[CollapsedGitFolder, ...]]:
    """The changes outside `.git` folders, and how many lie in each. Who asks for a path in one is told everything."""
    if _GIT in below.split(b"/"):
        return list(changes), ()
    told: list[PathChange] = []
    counts: dict[bytes, int] = {}
    for change in changes:
        folder = _git_folder(change)
        if folder is None:
            told.append(change)
        else:
            counts[folder] = counts.get(folder, 0) + 1
    return told, tuple(CollapsedGitFolder(path, count) for path, count in counts.items())


def _git_folder(change: PathChange) -> bytes | None:
    """The outermost `.git` folder that a change is in, or is."""
    names = change.path.split(b"/")
    if _GIT not in names:
        return None
    depth = names.index(_GIT) + 1
    # A file of this name is a worktree's or a submodule's: one line already.
    is_folder = any(entry is not None and entry.kind is EntryKind.FOLDER for entry in (change.before, change.after))
    return b"/".join(names[:depth]) if depth < len(names) or is_folder else None
