"""What a run changed in its workspace, and how to undo it: what its snapshots say."""

from __future__ import annotations

import os
from dataclasses import dataclass

from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.cli.common.undo_hint import undoing
from toolyard.core.errors import ToolyardError
from toolyard.drivers import Finished
from toolyard.snapshots import Diff, DiffLimits, SnapshotStore
from toolyard.snapshots.service.format import counted, folded_line, stat_line, worth_telling

_SHOWN = 12
_NAMED_PATHS = 4
"""Beyond them the command that undoes a run names none, and restores all there is."""
_LIMITS = DiffLimits(chars_each=200_000, chars=2_000_000, folds_git=True)


@dataclass(frozen=True, slots=True)
class Changes:
    lines: tuple[str, ...] = ()
    """One a path, with its mark first."""
    undo: str = ""
    """The command."""


def changes_of(options: YardOptions, ended: Finished) -> Changes | None:
    """None where nobody knows: no snapshots are taken there. Raises nothing that is ours: the run itself is over."""
    if not options.config.snapshots.automatic:
        return None
    if not ended.snapshot:
        return Changes()
    try:
        with Yard.open(options) as yard:
            return _between(yard.snapshots.store, ended.snapshot_before, ended.snapshot)
    except ToolyardError:
        return None


def _between(store: SnapshotStore, before: str, after: str) -> Changes:
    found = store.diff(before, after, limits=_LIMITS)
    if not found.total:
        return Changes()
    lines = [stat_line(change) for change in worth_telling(found.changes)]
    lines += [f"  {folded_line(each)}" for each in found.folded]
    more = len(lines) - _SHOWN + found.left_off
    if more > 1:
        lines = [*lines[:_SHOWN], f"  and {counted(more, 'more path')}"]
    return Changes(tuple(lines), undoing(before, _named(found)))


def _named(found: Diff) -> list[str]:
    """The paths to restore, the topmost alone; none where it is simpler to restore all."""
    every = {each for change in found.changes for each in (change.path, change.old_path) if each is not None}
    tops = [path for path in every if not any(path.startswith(other + b"/") for other in every)]
    is_few = len(tops) <= _NAMED_PATHS and not found.folded and not found.left_off
    return sorted(os.fsdecode(path) for path in tops) if is_few else []
