"""Copies the files of the winning agent to a folder of the user (`--apply`).

All files are copied if the agent worked in its own folder, and only the files it changed if it worked in a folder of
the user (`cwd`). Other files in the target stay untouched. A snapshot of the target is taken first; restoring it
undoes the copy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from toolyard.core.errors import ToolError, ValidationError
from toolyard.drivers.changes import boundary_snapshots
from toolyard.snapshots import DiffLimits, Snapshot, SnapshotStore
from toolyard.snapshots.service.format import change_line, display_path
from toolyard.snapshots.store.objects import EntryKind
from toolyard.team.paths import with_layout, workspace_of
from toolyard.workspace.agent_paths import AgentPaths, resolve_agent_paths

if TYPE_CHECKING:
    from toolyard.config.models import Config
    from toolyard.config.settings import Settings
    from toolyard.snapshots.diff.text_diff import Diff

_NANOSECONDS: Final = 1_000_000_000
_MAX_PATHS: Final = 100_000
_ALL_PATHS_LIMITS: Final = DiffLimits(changes=_MAX_PATHS + 1, chars=0)
_SHOWN_LIMITS: Final = DiffLimits(changes=500, chars=400_000, collapse_git=True)


@dataclass(frozen=True, slots=True)
class AppliedResult:
    """Result of copying a winner's files to a folder."""

    folder: str
    written: int
    removed: int
    undo: str
    """Snapshot of the folder before the copy; restoring it undoes the copy."""
    skipped: tuple[str, ...] = ()
    """Paths that were skipped, and why."""


class TeamFiles:
    """The file changes of a run's agents, read from their snapshots."""

    def __init__(self, config: Config, settings: Settings, state_home: str | None, began: float) -> None:
        self._config = with_layout(config)
        self._settings = settings
        self._state_home = state_home or ""
        self._began_ns = int(began * _NANOSECONDS)

    def diff_of(self, agent: str) -> str:
        """Returns everything the agent changed since the run began, as a diff."""
        with self._store(agent) as store:
            diff = self._changes(store, agent, _SHOWN_LIMITS)
            if diff is None:
                return ""
            return "\n".join(f"{change_line(change)}\n{change.text}".rstrip() for change in diff.changes)

    def _store(self, agent: str) -> SnapshotStore:
        return SnapshotStore(self._agent_paths(agent).snapshots_folder)

    def _agent_paths(self, agent: str) -> AgentPaths:
        return resolve_agent_paths(self._config, self._workspace(agent), agent, self._settings, self._state_home)

    def _workspace(self, agent: str) -> str:
        found = next(each for each in self._config.agents if each.id == agent)
        return os.path.realpath(workspace_of(self._config, found))

    def _boundary_snapshots(self, store: SnapshotStore, agent: str) -> tuple[Snapshot, Snapshot] | None:
        return boundary_snapshots(store.list(self._workspace(agent)), self._began_ns)

    def _changes(self, store: SnapshotStore, agent: str, limits: DiffLimits) -> Diff | None:
        ends = self._boundary_snapshots(store, agent)
        return store.diff(ends[0].id, ends[1].id, limits=limits) if ends is not None else None

    def apply_to_folder(self, agent: str, snapshot: str, folder: str) -> AppliedResult:
        """Copies the changes of the agent up to `snapshot` into `folder`. Raises ToolyardError."""
        target = os.path.realpath(folder)
        if not os.path.isdir(target):
            raise ValidationError.of("apply", f"{folder} is not a folder", hint="Create it first.")
        if target == self._workspace(agent):
            return AppliedResult(target, 0, 0, "")
        if not snapshot:
            return AppliedResult(target, 0, 0, "")
        with self._store(agent) as store:
            paths = self._paths_to_apply(store, agent, snapshot, target)
            in_the_way = {path for path in paths if _is_folder(target, path)}
            paths -= in_the_way
            if len(paths) > _MAX_PATHS:
                raise ToolError(
                    f"{agent} has changed more than {_MAX_PATHS:,} paths.",
                    hint=f"Copy them yourself from {self._workspace(agent)}.",
                )
            skipped = [f"{display_path(path)}: a folder with that name exists" for path in sorted(in_the_way)]
            if not paths:
                return AppliedResult(target, 0, 0, "", tuple(skipped))
            restored = store.restore(snapshot, root=target, paths=sorted(paths), skip_git=True)
        skipped += (f"{display_path(note.path)}: {note.why}" for note in (*restored.skipped, *restored.failed))
        return AppliedResult(target, restored.written, restored.removed, restored.before.id, tuple(skipped))

    def _paths_to_apply(self, store: SnapshotStore, agent: str, snapshot: str, target: str) -> set[bytes]:
        """Returns the files to write or remove. Never folders: removing one would remove other files of the user."""
        paths = {*_snapshot_files(store, snapshot)} if self._agent_paths(agent).is_own_folder else set[bytes]()
        ends = self._boundary_snapshots(store, agent)
        if ends is not None:
            changes = store.diff(ends[0].id, snapshot, limits=_ALL_PATHS_LIMITS).changes
            there = {change.path: change.after for change in changes if change.after is not None}
            paths |= {path for path, entry in there.items() if entry.kind is not EntryKind.FOLDER}
            had = {change.old_path or change.path: change.before for change in changes if change.before is not None}
            removed = {
                path for path, entry in had.items() if entry.kind is not EntryKind.FOLDER and path not in there
            }
            paths |= {path for path in removed if os.path.lexists(os.path.join(os.fsencode(target), path))}
        # Named paths are restored unconditionally, and this must not touch the user's git history or hooks.
        return {path for path in paths if not _is_git(path)}


def _is_folder(target: str, path: bytes) -> bool:
    there = os.path.join(os.fsencode(target), path)
    return os.path.isdir(there) and not os.path.islink(there)


def _is_git(path: bytes) -> bool:
    """Whether the path belongs to a git repository, also on case-insensitive file systems."""
    return any(part.lower() == b".git" for part in path.split(b"/"))


def _snapshot_files(store: SnapshotStore, snapshot: str, folder: bytes = b"") -> Iterator[bytes]:
    """Yields every path of a snapshot that is not a folder, without `.git`: repositories are merged with git."""
    for entry in store.show(snapshot, folder):
        path = os.path.join(folder, entry.name)
        if _is_git(entry.name):
            continue
        if entry.kind is EntryKind.FOLDER:
            yield from _snapshot_files(store, snapshot, path)
        else:
            yield path
