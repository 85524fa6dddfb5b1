"""Parses a client's listing of a folder: an answer is accepted completely or not at all.

A model writes it, so it must repeat the folder and the number of entries and state that it is complete. Prose around
the data, a truncated listing, another folder and invalid names are errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from toolyard.bridge.errors import BadAnswerError, PathRefusedError, Violation, printable_text
from toolyard.bridge.path_validator import PathValidator
from toolyard.bridge.sampling_answers import AnswerModel, read_answer
from toolyard.bridge.timestamps import Timestamp
from toolyard.core.errors import ValidationError
from toolyard.core.limits import DEFAULT_LIMITS
from toolyard.files.search.glob_patterns import Glob, compile_glob

MAX_LISTING_ENTRIES = 10_000
_MAX_DEPTH = 64
_MAX_REFUSED_LINKS = 200
_MAX_PATTERN_CHARS = 128

EntryType = Literal["file", "directory", "symlink"]


@dataclass(frozen=True, slots=True)
class PathInfo:
    """A file, a folder or a link at the client."""

    name: str
    path: str
    """In the policy's spelling: absolute if the project's root is known."""
    type: EntryType
    size: int | None = None
    mtime: float | None = None
    target: str | None = None
    """The target of a link, with links on the way resolved."""
    children: tuple[PathInfo, ...] | None = None
    """The entries of a folder, if requested."""
    refused: Violation | None = None
    """Why it cannot be used: a link that leads outside or in a circle, or a name with forbidden characters."""

    def walk(self) -> Iterator[PathInfo]:
        """Yields itself and everything below it."""
        yield self
        for child in self.children or ():
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class ListingRequest:
    """The requested listing."""

    path: str
    recursive: bool = False
    pattern: str | None = None

    @property
    def title(self) -> str:
        return f"the folder {printable_text(self.path)}"

    def glob(self) -> Glob | None:
        """Returns the compiled pattern, if any. Raises ValidationError if it is invalid."""
        if self.pattern is None:
            return None
        if len(self.pattern) > _MAX_PATTERN_CHARS:
            why = f"is longer than {_MAX_PATTERN_CHARS} characters"
            raise ValidationError.of("pattern", why, hint="Ask for less at a time.")
        return compile_glob(self.pattern, "pattern", DEFAULT_LIMITS, any_depth=True)


class _Entry(AnswerModel):
    name: str
    type: EntryType
    size: Annotated[int, Field(ge=0)] | None = None
    mtime: Timestamp = None
    target: str | None = None
    entries: list[_Entry] | None = None


class _Listing(AnswerModel):
    path: str
    complete: bool
    count: int
    entries: list[_Entry]


def read_listing(text: str, wanted: ListingRequest, validator: PathValidator) -> list[PathInfo]:
    """Returns the entries of a folder.

    Raises BadAnswerError, MissingFileError, UnreadableFileError or PathRefusedError.
    """
    listing = read_answer(text, _Listing, wanted.path, wanted.title)
    counted = _count_entries(listing.entries, wanted.title)
    if not listing.complete or counted != listing.count:
        raise BadAnswerError(wanted.title, f"it is not complete: {counted} entries of {listing.count}")
    reader = _ListingReader(wanted, validator)
    entries = reader.read_entries(listing.entries, wanted.path, ())
    return with_targets(entries, resolve_links(reader.links, validator))


class _ListingReader:
    """Converts a client's entries to PathInfo and collects the links."""

    def __init__(self, wanted: ListingRequest, validator: PathValidator) -> None:
        self._wanted = wanted
        self._child = ChildPaths(validator, wanted.title)
        self._glob = wanted.glob()
        self.links: dict[str, str] = {}

    def read_entries(self, listed: list[_Entry], folder: str, above: tuple[str, ...]) -> list[PathInfo]:
        names = [entry.name for entry in listed]
        if len(set(names)) != len(names):
            raise BadAnswerError(self._wanted.title, "a name is listed twice")
        return [self._read_entry(entry, folder, above) for entry in listed]

    def _read_entry(self, entry: _Entry, folder: str, above: tuple[str, ...]) -> PathInfo:
        path = self._child(folder, entry.name)
        if isinstance(path, PathInfo):
            return path
        names = (*above, entry.name)
        if (entry.target is not None) != (entry.type == "symlink"):
            raise self._bad_answer(path, "is a link without a target, or has one and is none")
        if entry.type == "symlink":
            self.links[path] = entry.target or ""
        if self._glob is not None and not self._may_be_listed(entry, names):
            raise self._bad_answer(path, f"does not match {printable_text(self._wanted.pattern or '')}")
        return PathInfo(
            entry.name, path, entry.type, entry.size, entry.mtime, None, self._read_children(entry, path, names)
        )

    def _may_be_listed(self, entry: _Entry, names: tuple[str, ...]) -> bool:
        """Whether the entry matches the pattern, or is a folder that may contain matches."""
        is_on_the_way = entry.type == "directory" and self._wanted.recursive
        return is_on_the_way or (self._glob is not None and self._glob.matches(names))

    def _read_children(self, entry: _Entry, path: str, names: tuple[str, ...]) -> tuple[PathInfo, ...] | None:
        is_wanted = entry.type == "directory" and self._wanted.recursive
        if is_wanted != (entry.entries is not None):
            raise self._bad_answer(path, "lacks its entries, or has entries that were not requested")
        return tuple(self.read_entries(entry.entries, path, names)) if entry.entries is not None else None

    def _bad_answer(self, path: str, why: str) -> BadAnswerError:
        return BadAnswerError(self._wanted.title, f"{printable_text(path)} {why}")


class ChildPaths:
    """Computes the paths of listed entries; an entry with a forbidden name becomes a refused PathInfo."""

    def __init__(self, validator: PathValidator, reported: str | None = None) -> None:
        """`reported` names the folder if a client reports its entries: then an impossible name is a bad answer."""
        self._validator = validator
        self._reported = reported

    def __call__(self, folder: str, name: str) -> str | PathInfo:
        """Returns the entry's path, or a refused PathInfo. Raises BadAnswerError."""
        try:
            return self._validator.validate_child(folder, name)
        except (PathRefusedError, ValidationError) as error:
            violation = error.violation if isinstance(error, PathRefusedError) else Violation.FORM
            if self._reported is not None and violation is not Violation.UNICODE:
                raise BadAnswerError(self._reported, error.message) from None
            return PathInfo(printable_text(name), "", "file", refused=violation)


def resolve_links(links: Mapping[str, str], validator: PathValidator) -> dict[str, str | Violation]:
    """Returns the final target of each link, or the violation if it leads outside or in a circle."""
    left, refused = dict(links), dict[str, Violation]()
    while True:
        try:
            ends = validator.validate_links(left)
        except PathRefusedError as error:
            if error.path not in left:
                raise
            refused[error.path] = error.violation
            del left[error.path]
            if len(refused) > _MAX_REFUSED_LINKS:
                many = f"it has more than {_MAX_REFUSED_LINKS} links that lead out or round"
                raise BadAnswerError("a folder", many) from None
            continue
        through = {link: _refusal_on_the_way(end, refused, validator) for link, end in ends.items()}
        return {**refused, **{link: through[link] or end for link, end in ends.items()}}


def _refusal_on_the_way(end: str, refused: Mapping[str, Violation], validator: PathValidator) -> Violation | None:
    """Returns the violation of a refused link on the way to `end`, or None."""
    return next((why for path, why in refused.items() if validator.lies_in(end, path)), None)


def with_targets(entries: Iterable[PathInfo], targets: Mapping[str, str | Violation]) -> list[PathInfo]:
    """Returns the entries with the targets or violations of their links."""
    return [_with_target(entry, targets) for entry in entries]


def _with_target(entry: PathInfo, targets: Mapping[str, str | Violation]) -> PathInfo:
    target = targets.get(entry.path)
    return replace(
        entry,
        target=None if isinstance(target, Violation) else target,
        refused=target if isinstance(target, Violation) else entry.refused,
        children=None if entry.children is None else tuple(with_targets(entry.children, targets)),
    )


def _count_entries(entries: list[_Entry], wanted: str) -> int:
    waiting, counted = [(entries, 1)], 0
    while waiting:
        listed, depth = waiting.pop()
        counted += len(listed)
        if counted > MAX_LISTING_ENTRIES or depth > _MAX_DEPTH:
            raise BadAnswerError(wanted, f"it has more than {MAX_LISTING_ENTRIES:,} entries, or {_MAX_DEPTH} levels")
        waiting += [(entry.entries, depth + 1) for entry in listed if entry.entries]
    return counted
