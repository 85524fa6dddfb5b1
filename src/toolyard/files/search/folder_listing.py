"""Lists folders through their handles: one level, a whole tree, or the names that match a pattern.

Every folder is reached from the root without following a link; links are shown with their target as text. Entries
that the policy hides and temporary files do not appear, and no listing is longer than its limit.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal

from toolyard.core.errors import ToolError, ToolyardError
from toolyard.core.limits import Limits
from toolyard.core.paths import relative_to
from toolyard.files.os_errors import explain, link_escape_error, printable_name
from toolyard.files.roots import Root
from toolyard.files.search.glob_patterns import Glob, compile_glob
from toolyard.files.search.ripgrep import TEMPORARY_FILES

Visible = Callable[[str], bool]
Kind = Literal["file", "folder", "link", "other"]

_MOST_FOLDERS_READ = 200_000  # a walk that shows little must end as well
_INDENT = "  "
_NOT_ENTERED = frozenset({".git"})


@dataclass(frozen=True, slots=True)
class ListingEntry:
    """One name in a listing. `path` is relative to the root and `depth` counts from the start (its children: 1).

    `target` is the text of a link. `is_expanded` says that a folder's content is listed.
    """

    path: str
    name: str
    kind: Kind
    size: int
    changed: float
    depth: int
    target: str = ""
    is_expanded: bool = False

    @property
    def label(self) -> str:
        """Returns the name as a listing shows it: `folder/`, `link -> target`."""
        match self.kind:
            case "folder":
                return f"{self.name}/"
            case "link":
                return f"{self.name} -> {self.target}"
            case _:
                return self.name


@dataclass(frozen=True, slots=True)
class FolderTree:
    """Entries in reading order: each folder before its content, names sorted."""

    start: str
    entries: tuple[ListingEntry, ...]
    truncated: bool
    note: str

    @property
    def text(self) -> str:
        return "\n".join(f"{_INDENT * (entry.depth - 1)}{entry.label}" for entry in self.entries)


@dataclass(frozen=True, slots=True)
class NameMatches:
    """The matching paths, relative to the root, sorted."""

    paths: tuple[str, ...]
    truncated: bool
    note: str


@dataclass(frozen=True, slots=True)
class _RawEntry:
    """An entry with its unescaped name, as system calls need it."""

    parts: tuple[str, ...]
    entry: ListingEntry


@dataclass(frozen=True, slots=True)
class _FolderReader:
    """Reads single folders beneath a start that was opened once; applies the policy and the ignore patterns."""

    root: Root
    base: str
    visible: Visible
    ignored: tuple[Glob, ...]

    def read(self, parts: tuple[str, ...]) -> list[_RawEntry]:
        """Returns the entries of one folder, sorted by name. OSError if it cannot be opened without a link."""
        fd = self.root.open_folder(os.path.join(self.base, *parts))
        try:
            with os.scandir(fd) as entries:
                names = sorted(entry.name for entry in entries)
            return [raw for name in names if (raw := self._entry(fd, (*parts, name))) is not None]
        finally:
            os.close(fd)

    def _entry(self, fd: int, parts: tuple[str, ...]) -> _RawEntry | None:
        name = parts[-1]
        inside = os.path.normpath(os.path.join(self.base, *parts))
        if fnmatchcase(name, TEMPORARY_FILES) or any(glob.matches(parts) for glob in self.ignored):
            return None
        if not self.visible(os.path.join(self.root.path, inside)):
            return None
        try:
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            kind = _entry_kind(status.st_mode)
            target = printable_name(os.readlink(name, dir_fd=fd)) if kind == "link" else ""
        except OSError:  # removed since the folder was read
            return None
        size = status.st_size if kind == "file" else 0
        return _RawEntry(
            parts,
            ListingEntry(
                printable_name(self.root.display_prefix + inside),
                printable_name(name),
                kind,
                size,
                status.st_mtime,
                len(parts),
                target,
            ),
        )


def list_folder(root: Root, start: str, *, visible: Visible, limits: Limits) -> FolderTree:
    """Lists one level of the folder `start`, with sizes."""
    return list_tree(root, start, ignore=(), visible=visible, limits=limits, depth=1)


def list_tree(
    root: Root,
    start: str,
    *,
    ignore: Sequence[str],
    visible: Visible,
    limits: Limits,
    depth: int | None = None,
    deadline: float | None = None,
) -> FolderTree:
    """Lists everything beneath the folder `start`, down to `depth` levels.

    If that is too much, the upper levels are complete and the deeper ones are left out.
    """
    globs = tuple(compile_glob(pattern, "ignore", limits, any_depth=True) for pattern in ignore)
    reader = _open_reader(root, start, visible, globs)
    taken: list[_RawEntry] = []
    chars = 0
    entered: set[tuple[str, ...]] = set()
    reason = ""
    for parts, found in _by_level(reader, start, depth):
        entered.add(parts)
        fitting = _entries_that_fit(found, limits.list_entries - len(taken), limits.output_chars - chars)
        chars += sum(map(_width, fitting))
        taken.extend(fitting)
        if len(fitting) < len(found):
            reason = f"Only the first {len(taken):,} entries are shown; list a folder below, or ignore some."
            break
        if _is_past(deadline):
            reason = "The listing ran into its deadline; list a folder below."
            break
    taken.sort(key=lambda raw: raw.parts)
    entries = tuple(replace(raw.entry, is_expanded=raw.parts in entered) for raw in taken)
    return FolderTree(printable_name(root.display_prefix + reader.base), entries, bool(reason), reason)


def _entries_that_fit(found: list[_RawEntry], entries: int, chars: int) -> list[_RawEntry]:
    """Returns as many entries, from the first, as there is room for."""
    candidates = found[:entries]
    if sum(map(_width, candidates)) <= chars:
        return candidates
    for count, raw in enumerate(candidates):
        chars -= _width(raw)
        if chars < 0:
            return candidates[:count]
    return candidates


def _width(raw: _RawEntry) -> int:
    """Returns the number of characters of its line."""
    return len(_INDENT) * (raw.entry.depth - 1) + len(raw.entry.label) + 1


def search_names(
    root: Root,
    start: str,
    pattern: str,
    exclude_patterns: Sequence[str],
    *,
    visible: Visible,
    limits: Limits,
    deadline: float | None = None,
) -> NameMatches:
    """Returns files and folders whose path from `start` matches `pattern`, ignoring case: `**/*.ts`, `src/*`."""
    wanted = compile_glob(pattern, "pattern", limits, ignore_case=True)
    globs = tuple(compile_glob(one, "excludePatterns", limits, any_depth=True) for one in exclude_patterns)
    reader = _open_reader(root, start, visible, globs)
    paths: list[str] = []
    reason = ""
    for _, found in _by_level(reader, start, None):
        paths.extend(raw.entry.path for raw in found if wanted.matches(raw.parts))
        if len(paths) > limits.list_entries:
            reason = f"Only {limits.list_entries:,} matches are shown; use a narrower pattern."
        elif _is_past(deadline):
            reason = "The search ran into its deadline; search a folder below."
        if reason:
            break
    return NameMatches(tuple(sorted(paths[: limits.list_entries])), bool(reason), reason)


def _by_level(
    reader: _FolderReader, start: str, depth: int | None
) -> Iterator[tuple[tuple[str, ...], list[_RawEntry]]]:
    """Yields each folder with its entries, level by level."""
    waiting: deque[tuple[str, ...]] = deque([()])
    read = 0
    while waiting and read < _MOST_FOLDERS_READ:
        parts = waiting.popleft()
        try:
            found = reader.read(parts)
        except OSError as error:
            if not parts:
                raise explain(error, start) from error
            continue  # unreadable, removed, or replaced by a link
        except ToolyardError:
            if not parts:
                raise
            continue  # no longer a folder
        read += 1
        yield parts, found
        if depth is None or len(parts) + 1 < depth:
            waiting.extend(
                raw.parts for raw in found if raw.entry.kind == "folder" and raw.parts[-1] not in _NOT_ENTERED
            )


def _open_reader(root: Root, start: str, visible: Visible, ignored: tuple[Glob, ...]) -> _FolderReader:
    try:
        with root.open(start) as handle:
            if not handle.is_folder:
                raise ToolError(f"{start} is not a folder.", hint="Name a folder, or read the file.")
            base = relative_to(handle.real, root.path)
    except OSError as error:
        raise explain(error, start) from error
    if base is None:
        raise link_escape_error(start)
    return _FolderReader(root, base, visible, ignored)


def _entry_kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def _is_past(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline
