"""Two ways to search files, with the same results.

Confined by Landlock, ripgrep walks the start itself. Otherwise it only lists names; each is opened through the root
without following a link, and ripgrep searches those open files, a batch at a time. A single file is always searched
through its descriptor.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import resource
import stat
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass

from toolyard.core.limits import KIB, MIB
from toolyard.files.landlocked_process import Confinement
from toolyard.files.search.grep_query import GrepOptions, GrepQuery
from toolyard.files.search.ripgrep import LAST_GLOBS, RipgrepOutput, StopReason
from toolyard.files.search.ripgrep_output import (
    DESCRIPTOR,
    WALKED,
    FileMatches,
    parse_blocks,
    parse_counts,
    parse_names,
    possible_names,
)
from toolyard.files.search.scope import SearchScope

CONTENT_BYTES = 4 * MIB
"""The most output of matching lines that is collected: more is never read, and the search ends sooner."""
NAMES_BYTES = 64 * MIB
_MOST_IN_A_BATCH = 512
_SNIFFED_BYTES = 8 * KIB
_SPARE_DESCRIPTORS = 4  # a share of one in so many: the rest of the process needs some too


@dataclass(frozen=True, slots=True)
class Hits:
    """The visible files with matches, unordered; why the search ended early; how many files could not be read."""

    found: tuple[FileMatches, ...]
    stop: StopReason | None
    unreadable: int


def search(scope: SearchScope, query: GrepQuery, options: GrepOptions) -> Hits:
    """Returns every visible file in the scope that has a match."""
    if scope.is_file:
        return _search_one_file(scope, query, options)
    if scope.confinement is Confinement.LANDLOCK:
        return _search_by_walk(scope, query, options)
    return _list_then_search(scope, query, options)


def list_names(scope: SearchScope, options: Iterable[str], *, glob_field: str = "glob") -> RipgrepOutput:
    """Lists the names that ripgrep finds with these options. They may not lie beneath the root: verify them."""
    return scope.run_ripgrep(("--files", *options, "--", WALKED.decode()), most=NAMES_BYTES, glob_field=glob_field)


def _search_by_walk(scope: SearchScope, query: GrepQuery, options: GrepOptions) -> Hits:
    arguments = (*options.matching, *options.files, *LAST_GLOBS, "--", WALKED.decode())
    output = scope.run_ripgrep(arguments, most=_output_limit(query))
    found = tuple(found for found in _parse_output(query, output, WALKED) if _may_show(scope, found))
    return Hits(found, output.stop, output.unreadable)


def _may_show(scope: SearchScope, found: FileMatches) -> bool:
    if "\n" in found.name:
        return all(scope.allows(name) for name in possible_names(found.name))
    return scope.allows(found.name)


def _search_one_file(scope: SearchScope, query: GrepQuery, options: GrepOptions) -> Hits:
    if not scope.allows(""):
        return Hits((), None, 0)
    fd = scope.handle.reopen_fd(os.O_RDONLY | os.O_NONBLOCK)
    try:
        return _search_open_files(scope, query, options, {fd: ""})
    finally:
        os.close(fd)


def _list_then_search(scope: SearchScope, query: GrepQuery, options: GrepOptions) -> Hits:
    listing = list_names(scope, (*options.files, *LAST_GLOBS))
    found: list[FileMatches] = []
    left = _output_limit(query)
    stop, unreadable = listing.stop, listing.unreadable
    for batch in _batches(parse_names(listing.data, WALKED), _batch_size()):
        with _open_files(scope, batch) as opened:
            unreadable += opened.refused
            if not opened.by_fd:
                continue
            hits = _search_open_files(scope, query, options, opened.by_fd)
        found.extend(hits.found)
        unreadable += hits.unreadable
        left -= sum(len(record.name) + len(record.body) for record in hits.found)
        stop = hits.stop or (StopReason.FULL if left < 0 else None) or scope.bounds.stop_reason() or stop
        if stop in {StopReason.CANCELLED, StopReason.DEADLINE} or left < 0:
            break
    return Hits(tuple(found), stop, unreadable)


def _search_open_files(scope: SearchScope, query: GrepQuery, options: GrepOptions, by_fd: dict[int, str]) -> Hits:
    """Searches files that are already open; ripgrep knows them by descriptor, and the result has their names."""
    paths = (f"{DESCRIPTOR.decode()}{fd}" for fd in by_fd)
    output = scope.run_ripgrep((*options.matching, "--", *paths), most=_output_limit(query), passed=tuple(by_fd))
    parsed = _parse_output(query, output, DESCRIPTOR)
    return Hits(tuple(FileMatches(by_fd[int(f.name)], f.body) for f in parsed), output.stop, output.unreadable)


def _parse_output(query: GrepQuery, output: RipgrepOutput, prefix: bytes) -> Iterable[FileMatches]:
    match query.output_mode:
        case "content":
            return parse_blocks(output.data, prefix, torn=output.stop is not None)
        case "count":
            return parse_counts(output.data, prefix)
        case "files_with_matches":
            return (FileMatches(name, b"") for name in parse_names(output.data, prefix))


def _output_limit(query: GrepQuery) -> int:
    return CONTENT_BYTES if query.output_mode == "content" else NAMES_BYTES


@dataclass(frozen=True, slots=True)
class _OpenFiles:
    by_fd: dict[int, str]
    refused: int


@contextlib.contextmanager
def _open_files(scope: SearchScope, batch: Sequence[str]) -> Generator[_OpenFiles]:
    """Opens the files of `batch` that are visible and regular files beneath the root."""
    by_fd: dict[int, str] = {}
    refused = 0
    try:
        for name in batch:
            if not scope.allows(name):
                continue
            try:
                fd = _open_file(scope, name)
            except PermissionError:
                refused += 1
                continue
            except OSError:  # removed, or replaced since the listing, perhaps by a link that leads out
                continue
            if fd is not None:
                by_fd[fd] = name
        yield _OpenFiles(by_fd, refused)
    finally:
        for fd in by_fd:
            os.close(fd)


def _open_file(scope: SearchScope, name: str) -> int | None:
    handle = scope.open(name)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        fd = os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(handle)
    if _looks_binary(os.pread(fd, _SNIFFED_BYTES, 0)):
        os.close(fd)
        return None
    return fd


def _looks_binary(head: bytes) -> bool:
    """Applies ripgrep's rule for binary files: a NUL byte, unless a byte order mark says UTF-16."""
    return b"\0" in head and not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def _batch_size() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, min(_MOST_IN_A_BATCH, soft // _SPARE_DESCRIPTORS))


def _batches(candidates: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for at in range(0, len(candidates), size):
        yield candidates[at : at + size]
