"""What a run changed in its workspace, and how to undo it: what its snapshots say."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from toolyard.app.snapshots.telling import counted, folded_line, stat_line
from toolyard.app.yard import Yard, YardOptions
from toolyard.cli.undoing import undoing
from toolyard.core.errors import ToolyardError
from toolyard.workspace.snapshots import Change, Diff, DiffLimits, Kind, Snapshot, SnapshotStore, What

_SHOWN = 12
_NAMED_PATHS = 4
"""Beyond them the command that undoes a run names none, and restores all there is."""
_LIMITS = DiffLimits(chars_each=200_000, chars=2_000_000, folds_git=True)
_BASELINE = "before a change"


@dataclass(frozen=True, slots=True)
class Changes:
    lines: tuple[str, ...] = ()
    """One a path, with its mark first."""
    undo: str = ""
    """The command."""


def changes_since(options: YardOptions, began_ns: int) -> Changes | None:
    """None where nobody knows: no snapshots are taken there. Raises nothing that is ours: the run itself is over."""
    if not options.config.snapshots.automatic:
        return None
    try:
        with Yard.open(options) as yard:
            keeper = yard.snapshots
            every = keeper.store.list(keeper.place.root)
            ends = _ends(every, began_ns)
            return _between(keeper.store, *ends) if ends is not None else Changes()
    except ToolyardError:
        return None


def _ends(every: Sequence[Snapshot], began_ns: int) -> tuple[Snapshot, Snapshot] | None:
    """The snapshots before the first change of the run and after its last. `every` has the newest first."""
    taken = [each for each in every if each.time_ns >= began_ns]
    if not taken:
        return None
    first, last = taken[-1], taken[0]
    if first.reason == _BASELINE:
        return first, last
    before = every[len(taken)] if len(taken) < len(every) else None
    return (before, last) if before is not None else None


def _between(store: SnapshotStore, before: Snapshot, after: Snapshot) -> Changes:
    found = store.diff(before.id, after.id, limits=_LIMITS)
    if not found.total:
        return Changes()
    lines = [stat_line(change) for change in found.changes if not _is_told_by_others(change, found.changes)]
    lines += [f"  {folded_line(each)}" for each in found.folded]
    more = len(lines) - _SHOWN + found.left_off
    if more > 1:
        lines = [*lines[:_SHOWN], f"  and {counted(more, 'more path')}"]
    return Changes(tuple(lines), undoing(before.id, _named(found)))


def _is_told_by_others(change: Change, every: Sequence[Change]) -> bool:
    """A folder that came or went with what is in it."""
    entry = change.after or change.before
    is_folder = entry is not None and entry.kind is Kind.FOLDER and change.what in {What.ADDED, What.REMOVED}
    return is_folder and any(other.path.startswith(change.path + b"/") for other in every)


def _named(found: Diff) -> list[str]:
    """The paths to restore, the topmost alone; none where it is simpler to restore all."""
    every = {each for change in found.changes for each in (change.path, change.old_path) if each is not None}
    tops = [path for path in every if not any(path.startswith(other + b"/") for other in every)]
    is_few = len(tops) <= _NAMED_PATHS and not found.folded and not found.left_off
    return sorted(os.fsdecode(path) for path in tops) if is_few else []
