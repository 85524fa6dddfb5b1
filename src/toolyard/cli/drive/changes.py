"""What a run changed in its workspace, and how to undo it: what its snapshots say."""

from __future__ import annotations

import os
from dataclasses import dataclass

from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.cli.common.undo_hint import undo_hint
from toolyard.core.errors import ToolyardError
from toolyard.drivers import Finished
from toolyard.snapshots import Diff, DiffLimits, SnapshotStore
from toolyard.snapshots.service.format import folded_line, pluralize, stat_line, without_implied_folders

_MAX_LINES = 12
_NAMED_PATHS = 4
"""Beyond them the command that undoes a run names none, and restores all there is."""
_LIMITS = DiffLimits(chars_each=200_000, chars=2_000_000, collapse_git=True)


@dataclass(frozen=True, slots=True)
class RunChanges:
    lines: tuple[str, ...] = ()
    """One a path, with its mark first."""
    undo: str = ""
    """The command."""


def changes_of(options: YardOptions, ended: Finished) -> RunChanges | None:
    """None where nobody knows: no snapshots are taken there. Raises nothing that is ours: the run itself is over."""
    if not options.config.snapshots.automatic:
        return None
    if not ended.snapshot:
        return RunChanges()
    try:
        with Yard.open(options) as yard:
            return _changes_between(yard.snapshots.store, ended.snapshot_before, ended.snapshot)
    except ToolyardError:
        return None


def _changes_between(store: SnapshotStore, before: str, after: str) -> RunChanges:
    found = store.diff(before, after, limits=_LIMITS)
    if not found.total:
        return RunChanges()
    lines = [stat_line(change) for change in without_implied_folders(found.changes)]
    lines += [f"  {folded_line(each)}" for each in found.collapsed]
    more = len(lines) - _MAX_LINES + found.omitted_count
    if more > 1:
        lines = [*lines[:_MAX_LINES], f"  and {pluralize(more, 'more path')}"]
    return RunChanges(tuple(lines), undo_hint(before, _paths_to_restore(found)))


def _paths_to_restore(found: Diff) -> list[str]:
    """The paths to restore, the topmost alone; none where it is simpler to restore all."""
    every = {each for change in found.changes for each in (change.path, change.old_path) if each is not None}
    tops = [path for path in every if not any(path.startswith(other + b"/") for other in every)]
    is_few = len(tops) <= _NAMED_PATHS and not found.collapsed and not found.omitted_count
    return sorted(os.fsdecode(path) for path in tops) if is_few else []
