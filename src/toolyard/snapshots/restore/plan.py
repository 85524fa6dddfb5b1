"""What a restore has to do: the differences from the tree as it was just before to the tree that is wanted."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from toolyard.core.errors import ToolError
from toolyard.files.os_errors import shown
from toolyard.files.root_folder import join
from toolyard.snapshots.diff.git_skip import Leaving
from toolyard.snapshots.diff.tree_diff import Change, OnDamage, Skip, What, compare
from toolyard.snapshots.store.object_reader import ObjectReader, find, names_of
from toolyard.snapshots.store.objects import Entry, Kind

EMPTY = b""
"""Instead of a digest: a folder that is made without what the snapshot has in it."""


@dataclass(slots=True)
class Plan:
    """In the order things are done: take away, deepest first; make folders and files; set modes, deepest first."""

    removals: list[Change] = field(default_factory=list[Change])
    additions: list[Change] = field(default_factory=list[Change])
    """New entries and those that take the place of old ones; a new folder stands for everything in it."""
    modes: list[Change] = field(default_factory=list[Change])
    left: list[bytes] = field(default_factory=list[bytes])
    """Repositories that differ and stay as they are."""


def make_plan(
    reader: ObjectReader,
    now: Entry,
    wanted: Entry,
    paths: Sequence[bytes] | None,
    on_damage: OnDamage,
    *,
    leaves_git: bool = False,
) -> Plan:
    """`now` and `wanted` are the two topmost folders; with `paths` only what is there or beneath is restored.

    With `leaves_git` repositories stay as they are, unless a path names one or something in it.
    """
    leaving = Leaving(reader.entries, now=0) if leaves_git else None
    plan = Plan()
    for change in _changes(reader, now, wanted, paths, on_damage, skip=leaving):
        if change.what is What.REMOVED:
            plan.removals.append(change)
        elif change.what is What.MODE:
            plan.modes.append(change)
        else:
            plan.additions.append(change)
    if leaving is not None:
        plan.left = leaving.left
        plan.removals = [change for change in plan.removals if not leaving.is_above(change.path)]
    plan.removals.reverse()
    plan.modes.reverse()
    return plan


def _changes(
    reader: ObjectReader,
    now: Entry,
    wanted: Entry,
    paths: Sequence[bytes] | None,
    on_damage: OnDamage,
    *,
    skip: Skip | None,
) -> Iterator[Change]:
    if paths is None:
        yield from compare(reader, reader, (now, wanted), b"", on_damage, into_added=False, skip=skip)
        return
    done: set[bytes] = set()
    for path in sorted(b"/".join(names_of(path)) for path in paths):
        if any(path == other or path.startswith(other + b"/") or not other for other in done):
            continue
        had, has = _entry(reader, now, path), _entry(reader, wanted, path)
        if had is None and has is None:
            path = _as_told(reader, (now, wanted), path)
            had, has = _entry(reader, now, path), _entry(reader, wanted, path)
        if had is None and has is None:
            told = shown(path.decode("utf-8", "surrogateescape"))
            raise ToolError(
                f"Neither the snapshot nor the folder has {told}.", hint="Show the snapshot to see what it holds."
            )
        if has is not None:
            for above in _missing_above(reader, now, wanted, path):
                if above.path not in done:
                    yield above
        done.add(path)
        yield from compare(reader, reader, (had, has), path, on_damage, into_added=False, skip=skip)


def _missing_above(reader: ObjectReader, now: Entry, wanted: Entry, path: bytes) -> Iterator[Change]:
    """The folders on the way to `path` that are not there now, each without what it holds."""
    above = b""
    for name in names_of(path)[:-1]:
        above = join(above, name)
        had, has = _entry(reader, now, above), _entry(reader, wanted, above)
        if has is not None and (had is None or had.kind is not Kind.FOLDER):
            if had is not None:
                yield Change(What.REMOVED, above, had, None)
            yield Change(What.ADDED, above, None, has._replace(ref=EMPTY))


def _as_told(reader: ObjectReader, tops: tuple[Entry, Entry], path: bytes) -> bytes:
    """The path that is told as `path`: names that are not UTF-8, or no text to print, are told in another spelling.

    Whoever undoes what we told has no other. Where two names are told alike, it stays as it is.
    """
    found = b""
    for name in names_of(path):
        above = [entry for top in tops if (entry := _entry(reader, top, found)) and entry.kind is Kind.FOLDER]
        inside = {one.name for folder in above for one in reader.entries(folder.ref)}
        meant = {name} & inside or {other for other in inside if shown(os.fsdecode(other)) == os.fsdecode(name)}
        if len(meant) != 1:
            return path
        found = join(found, meant.pop())
    return found


def _entry(reader: ObjectReader, top: Entry, path: bytes) -> Entry | None:
    try:
        return find(reader, top, path)
    except ToolError:
        return None
