"""Plans a restore: the differences from the current tree to the wanted one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from toolyard.core.errors import ToolError
from toolyard.files.os_errors import printable_name
from toolyard.files.root_folder import join_path
from toolyard.snapshots.diff.git_skip import RepositorySkipper
from toolyard.snapshots.diff.tree_diff import ChangeType, OnDamage, PathChange, Skip, compare_trees
from toolyard.snapshots.store.object_reader import ObjectReader, find_entry, path_parts
from toolyard.snapshots.store.objects import EntryKind, TreeEntry

EMPTY_FOLDER = b""
"""Used in place of a digest: a folder that is created without its content."""


@dataclass(slots=True)
class RestorePlan:
    """The steps in order: remove, deepest first; add folders and files; set modes, deepest first."""

    removals: list[PathChange] = field(default_factory=list[PathChange])
    additions: list[PathChange] = field(default_factory=list[PathChange])
    """New and replaced entries; a new folder includes everything in it."""
    modes: list[PathChange] = field(default_factory=list[PathChange])
    skipped_repositories: list[bytes] = field(default_factory=list[bytes])
    """Repositories that differ and are left unchanged."""


def make_plan(
    reader: ObjectReader,
    now: TreeEntry,
    wanted: TreeEntry,
    paths: Sequence[bytes] | None,
    on_damage: OnDamage,
    *,
    skip_git: bool = False,
) -> RestorePlan:
    """Plans the restore from the root folder `now` to `wanted`; with `paths` only at and beneath those.

    With `skip_git` repositories are left unchanged, unless a path names one or something in it.
    """
    skipper = RepositorySkipper(reader.entries, now=0) if skip_git else None
    plan = RestorePlan()
    for change in _changes(reader, now, wanted, paths, on_damage, skip=skipper):
        if change.what is ChangeType.REMOVED:
            plan.removals.append(change)
        elif change.what is ChangeType.MODE:
            plan.modes.append(change)
        else:
            plan.additions.append(change)
    if skipper is not None:
        plan.skipped_repositories = skipper.skipped
        plan.removals = [change for change in plan.removals if not skipper.contains_skipped(change.path)]
    plan.removals.reverse()
    plan.modes.reverse()
    return plan


def _changes(
    reader: ObjectReader,
    now: TreeEntry,
    wanted: TreeEntry,
    paths: Sequence[bytes] | None,
    on_damage: OnDamage,
    *,
    skip: Skip | None,
) -> Iterator[PathChange]:
    if paths is None:
        yield from compare_trees(reader, reader, (now, wanted), b"", on_damage, descend_into_added=False, skip=skip)
        return
    done: set[bytes] = set()
    for path in sorted(b"/".join(path_parts(path)) for path in paths):
        if any(path == other or path.startswith(other + b"/") or not other for other in done):
            continue
        had, has = _entry(reader, now, path), _entry(reader, wanted, path)
        if had is None and has is None:
            path = _path_from_display(reader, (now, wanted), path)
            had, has = _entry(reader, now, path), _entry(reader, wanted, path)
        if had is None and has is None:
            name = printable_name(path.decode("utf-8", "surrogateescape"))
            raise ToolError(
                f"Neither the snapshot nor the folder has {name}.", hint="Show the snapshot to see its content."
            )
        if has is not None:
            for above in _missing_parents(reader, now, wanted, path):
                if above.path not in done:
                    yield above
        done.add(path)
        yield from compare_trees(reader, reader, (had, has), path, on_damage, descend_into_added=False, skip=skip)


def _missing_parents(reader: ObjectReader, now: TreeEntry, wanted: TreeEntry, path: bytes) -> Iterator[PathChange]:
    """Yields the folders on the way to `path` that do not exist now, each without its content."""
    above = b""
    for name in path_parts(path)[:-1]:
        above = join_path(above, name)
        had, has = _entry(reader, now, above), _entry(reader, wanted, above)
        if has is not None and (had is None or had.kind is not EntryKind.FOLDER):
            if had is not None:
                yield PathChange(ChangeType.REMOVED, above, had, None)
            yield PathChange(ChangeType.ADDED, above, None, has._replace(ref=EMPTY_FOLDER))


def _path_from_display(reader: ObjectReader, tops: tuple[TreeEntry, TreeEntry], path: bytes) -> bytes:
    """Returns the path that is displayed as `path`: names that are not printable UTF-8 are displayed escaped.

    A user who undoes a change knows only the displayed spelling. If two names are displayed alike, `path` is
    returned.
    """
    found = b""
    for name in path_parts(path):
        above = [entry for top in tops if (entry := _entry(reader, top, found)) and entry.kind is EntryKind.FOLDER]
        inside = {one.name for folder in above for one in reader.entries(folder.ref)}
        meant = {name} & inside or {
            other for other in inside if printable_name(os.fsdecode(other)) == os.fsdecode(name)
        }
        if len(meant) != 1:
            return path
        found = join_path(found, meant.pop())
    return found


def _entry(reader: ObjectReader, top: TreeEntry, path: bytes) -> TreeEntry | None:
    try:
        return find_entry(reader, top, path)
    except ToolError:
        return None
