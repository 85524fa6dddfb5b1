"""Counts the changes inside `.git` folders per repository: listed path by path they would hide all other changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from toolyard.snapshots.diff.tree_diff import PathChange
from toolyard.snapshots.store.objects import EntryKind

_GIT = b".git"


@dataclass(frozen=True, slots=True)
class CollapsedGitFolder:
    """A `.git` folder and the number of paths that changed in it."""

    path: bytes
    count: int


def collapse_git_folders(
    changes: Iterable[PathChange], below: bytes
) -> tuple[list[PathChange], tuple[CollapsedGitFolder, ...]]:
    """Separates the changes in `.git` folders and counts them per folder.

    If `below` lies in such a folder, nothing is collapsed.
    """
    if _GIT in below.split(b"/"):
        return list(changes), ()
    outside: list[PathChange] = []
    counts: dict[bytes, int] = {}
    for change in changes:
        folder = _git_folder(change)
        if folder is None:
            outside.append(change)
        else:
            counts[folder] = counts.get(folder, 0) + 1
    return outside, tuple(CollapsedGitFolder(path, count) for path, count in counts.items())


def _git_folder(change: PathChange) -> bytes | None:
    """Returns the outermost `.git` folder that a change is in, or is."""
    names = change.path.split(b"/")
    if _GIT not in names:
        return None
    depth = names.index(_GIT) + 1
    # A file called .git belongs to a worktree or a submodule: it is one line anyway.
    is_folder = any(entry is not None and entry.kind is EntryKind.FOLDER for entry in (change.before, change.after))
    return b"/".join(names[:depth]) if depth < len(names) or is_folder else None
