"""What a run changed in its workspace, from its snapshots, and how to undo it."""

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
"""With more paths than this, the undo command names none and restores everything."""
_LIMITS = DiffLimits(chars_each=200_000, chars=2_000_000, collapse_git=True)


@dataclass(frozen=True, slots=True)
class RunChanges:
    """The changed files and the command that restores them."""

    lines: tuple[str, ...] = ()
    """One per path, starting with its mark."""
    undo: str = ""
    """The command that undoes the changes."""


def changes_of(options: YardOptions, ended: Finished) -> RunChanges | None:
    """Returns the changes of a run; None if they are unknown, because there are no snapshots or they cannot be
    read.
    """
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
    """Returns the topmost changed paths; empty if restoring everything is simpler."""
    every = {each for change in found.changes for each in (change.path, change.old_path) if each is not None}
    tops = [path for path in every if not any(path.startswith(other + b"/") for other in every)]
    is_few = len(tops) <= _NAMED_PATHS and not found.collapsed and not found.omitted_count
    return sorted(os.fsdecode(path) for path in tops) if is_few else []
