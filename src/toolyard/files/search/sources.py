"""The two ways a search gets at the files, with the same hits.

Confined by Landlock, ripgrep walks the start itself. Otherwise it walks only to list names; each name is opened
through the root without following a link, and ripgrep searches those open files, a batch at a time. One file is
always searched through its descriptor.
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
from toolyard.files.search.ripgrep import LAST_GLOBS, Output, Stop
from toolyard.files.search.ripgrep_output import DESCRIPTOR, WALKED, Found, blocks, counts, names, readings
from toolyard.files.search.scope import Scope

CONTENT_BYTES = 4 * MIB
"""More matching lines than this are not collected: nobody reads them, and the search ends that much sooner."""
NAMES_BYTES = 64 * MIB
_MOST_IN_A_BATCH = 512
_SNIFFED_BYTES = 8 * KIB
_SPARE_DESCRIPTORS = 4  # a share of one in so many: the rest of the process needs some too


@dataclass(frozen=True, slots=True)
class Hits:
    """The files with matches that may be seen, in no order; why it ended early; how many could not be read."""

    found: tuple[Found, ...]
    stop: Stop | None
    unreadable: int


def search(scope: Scope, query: GrepQuery, options: GrepOptions) -> Hits:
    """Every visible file in the scope that has a match."""
    if scope.is_file:
        return _one_file(scope, query, options)
    if scope.confinement is Confinement.LANDLOCK:
        return _walked(scope, query, options)
    return _listed_then_opened(scope, query, options)


def listed(scope: Scope, options: Iterable[str], *, glob_field: str = "glob") -> Output:
    """The names ripgrep finds: `--files` with these options. Not yet proven to lie beneath the root."""
    return scope.run(("--files", *options, "--", WALKED.decode()), most=NAMES_BYTES, glob_field=glob_field)


def _walked(scope: Scope, query: GrepQuery, options: GrepOptions) -> Hits:
    arguments = (*options.matching, *options.files, *LAST_GLOBS, "--", WALKED.decode())
    output = scope.run(arguments, most=_budget(query))
    found = tuple(found for found in _parsed(query, output, WALKED) if _may_show(scope, found))
    return Hits(found, output.stop, output.unreadable)


def _may_show(scope: Scope, found: Found) -> bool:
    if "\n" in found.name:
        return all(scope.allows(name) for name in readings(found.name))
    return scope.allows(found.name)


def _one_file(scope: Scope, query: GrepQuery, options: GrepOptions) -> Hits:
    if not scope.allows(""):
        return Hits((), None, 0)
    fd = scope.handle.reopen(os.O_RDONLY | os.O_NONBLOCK)
    try:
        return _opened(scope, query, options, {fd: ""})
    finally:
        os.close(fd)


def _listed_then_opened(scope: Scope, query: GrepQuery, options: GrepOptions) -> Hits:
    listing = listed(scope, (*options.files, *LAST_GLOBS))
    found: list[Found] = []
    left = _budget(query)
    stop, unreadable = listing.stop, listing.unreadable
    for batch in _batches(names(listing.data, WALKED), _batch_size()):
        with _open_files(scope, batch) as opened:
            unreadable += opened.refused
            if not opened.by_fd:
                continue
            hits = _opened(scope, query, options, opened.by_fd)
        found.extend(hits.found)
        unreadable += hits.unreadable
        left -= sum(len(record.name) + len(record.body) for record in hits.found)
        stop = hits.stop or (Stop.FULL if left < 0 else None) or scope.bounds.reached() or stop
        if stop in {Stop.CANCELLED, Stop.DEADLINE} or left < 0:
            break
    return Hits(tuple(found), stop, unreadable)


def _opened(scope: Scope, query: GrepQuery, options: GrepOptions, by_fd: dict[int, str]) -> Hits:
    """Search files that are open already; each is known by its descriptor and named again afterwards."""
    paths = (f"{DESCRIPTOR.decode()}{fd}" for fd in by_fd)
    output = scope.run((*options.matching, "--", *paths), most=_budget(query), passed=tuple(by_fd))
    parsed = _parsed(query, output, DESCRIPTOR)
    return Hits(tuple(Found(by_fd[int(f.name)], f.body) for f in parsed), output.stop, output.unreadable)


def _parsed(query: GrepQuery, output: Output, prefix: bytes) -> Iterable[Found]:
    match query.output_mode:
        case "content":
            return blocks(output.data, prefix, torn=output.stop is not None)
        case "count":
            return counts(output.data, prefix)
        case "files_with_matches":
            return (Found(name, b"") for name in names(output.data, prefix))


def _budget(query: GrepQuery) -> int:
    return CONTENT_BYTES if query.output_mode == "content" else NAMES_BYTES


@dataclass(frozen=True, slots=True)
class _Opened:
    by_fd: dict[int, str]
    refused: int


@contextlib.contextmanager
def _open_files(scope: Scope, batch: Sequence[str]) -> Generator[_Opened]:
    """Those of `batch` that may be seen and are regular files beneath the root, open for reading."""
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
            except OSError:  # gone, or no longer what ripgrep listed: a link, perhaps one that leads out
                continue
            if fd is not None:
                by_fd[fd] = name
        yield _Opened(by_fd, refused)
    finally:
        for fd in by_fd:
            os.close(fd)


def _open_file(scope: Scope, name: str) -> int | None:
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
    """As ripgrep judges files it walks to: a NUL byte, unless a mark at the start says UTF-16."""
    return b"\0" in head and not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def _batch_size() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, min(_MOST_IN_A_BATCH, soft // _SPARE_DESCRIPTORS))


def _batches(candidates: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for at in range(0, len(candidates), size):
        yield candidates[at : at + size]
