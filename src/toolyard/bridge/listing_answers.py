"""What a client says a folder holds: an answer is right in every part, or nothing of it is taken.

A model writes it. So it has to repeat which folder it is about and how many entries it lists, and to say that it is
complete; prose around the data, a listing that was cut, another folder, a name that cannot be one, are errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from toolyard.bridge.errors import BadAnswerError, PathRefusedError, Violation, spelled
from toolyard.bridge.path_validator import PathValidator
from toolyard.bridge.sampling_answers import Said, read_answer
from toolyard.bridge.timestamps import Timestamp
from toolyard.core.errors import ValidationError
from toolyard.core.limits import DEFAULT_LIMITS
from toolyard.files.search.glob_patterns import Glob, compile_glob

MOST_ENTRIES = 10_000
_DEEPEST = 64
_MOST_REFUSED = 200
_MOST_PATTERN_CHARS = 128

Kind = Literal["file", "directory", "symlink"]


@dataclass(frozen=True, slots=True)
class PathInfo:
    """A file, a folder or a link at the client's."""

    name: str
    path: str
    """As the policy spells it: absolute where the project's root is known."""
    type: Kind
    size: int | None = None
    mtime: float | None = None
    target: str | None = None
    """Where a link leads, links on the way followed."""
    children: tuple[PathInfo, ...] | None = None
    """What a folder holds, where that was asked for."""
    refused: Violation | None = None
    """Why it cannot be used: a link that leads out or round, a name with characters that are not taken."""

    def walk(self) -> Iterator[PathInfo]:
        """Itself, and everything below it."""
        yield self
        for child in self.children or ():
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which listing was asked for."""

    path: str
    recursive: bool = False
    pattern: str | None = None

    @property
    def title(self) -> str:
        return f"the folder {spelled(self.path)}"

    def glob(self) -> Glob | None:
        """Raises ValidationError for a pattern that is none."""
        if self.pattern is None:
            return None
        if len(self.pattern) > _MOST_PATTERN_CHARS:
            why = f"is longer than {_MOST_PATTERN_CHARS} characters"
            raise ValidationError.of("pattern", why, hint="Ask for less at a time.")
        return compile_glob(self.pattern, "pattern", DEFAULT_LIMITS, any_depth=True)


class _Entry(Said):
    name: str
    type: Kind
    size: Annotated[int, Field(ge=0)] | None = None
    mtime: Timestamp = None
    target: str | None = None
    entries: list[_Entry] | None = None


class _Listing(Said):
    path: str
    complete: bool
    count: int
    entries: list[_Entry]


def read_listing(text: str, wanted: Wanted, validator: PathValidator) -> list[PathInfo]:
    """The entries of a folder. Raises BadAnswerError, MissingFileError, UnreadableFileError, PathRefusedError."""
    said = read_answer(text, _Listing, wanted.path, wanted.title)
    counted = _count(said.entries, wanted.title)
    if not said.complete or counted != said.count:
        raise BadAnswerError(wanted.title, f"it is not complete: {counted} entries of {said.count}")
    made = _Reading(wanted, validator)
    entries = made.entries(said.entries, wanted.path, ())
    return with_targets(entries, judged(made.links, validator))


class _Reading:
    """From what was said to PathInfo, noting the links on the way."""

    def __init__(self, wanted: Wanted, validator: PathValidator) -> None:
        self._wanted = wanted
        self._child = Children(validator, wanted.title)
        self._glob = wanted.glob()
        self.links: dict[str, str] = {}

    def entries(self, said: list[_Entry], folder: str, above: tuple[str, ...]) -> list[PathInfo]:
        names = [entry.name for entry in said]
        if len(set(names)) != len(names):
            raise BadAnswerError(self._wanted.title, "a name is listed twice")
        return [self._entry(entry, folder, above) for entry in said]

    def _entry(self, said: _Entry, folder: str, above: tuple[str, ...]) -> PathInfo:
        path = self._child(folder, said.name)
        if isinstance(path, PathInfo):
            return path
        names = (*above, said.name)
        if (said.target is not None) != (said.type == "symlink"):
            raise self._bad(path, "is a link without a target, or has one and is none")
        if said.type == "symlink":
            self.links[path] = said.target or ""
        if self._glob is not None and not self._may_be_listed(said, names):
            raise self._bad(path, f"does not match {spelled(self._wanted.pattern or '')}")
        return PathInfo(said.name, path, said.type, said.size, said.mtime, None, self._below(said, path, names))

    def _may_be_listed(self, said: _Entry, names: tuple[str, ...]) -> bool:
        """Folders may, on the way to what matches."""
        is_on_the_way = said.type == "directory" and self._wanted.recursive
        return is_on_the_way or (self._glob is not None and self._glob.matches(names))

    def _below(self, said: _Entry, path: str, names: tuple[str, ...]) -> tuple[PathInfo, ...] | None:
        is_wanted = said.type == "directory" and self._wanted.recursive
        if is_wanted != (said.entries is not None):
            raise self._bad(path, "lacks its entries, or has some that nobody asked for")
        return tuple(self.entries(said.entries, path, names)) if said.entries is not None else None

    def _bad(self, path: str, why: str) -> BadAnswerError:
        return BadAnswerError(self._wanted.title, f"{spelled(path)} {why}")


class Children:
    """The paths of entries that are reported; of those whose names are not taken, what is told of them instead."""

    def __init__(self, validator: PathValidator, reported: str | None = None) -> None:
        """`reported` names the folder where a client says what is in it: there, what can be no name is a lie."""
        self._validator = validator
        self._reported = reported

    def __call__(self, folder: str, name: str) -> str | PathInfo:
        """Raises BadAnswerError."""
        try:
            return self._validator.validate_child(folder, name)
        except (PathRefusedError, ValidationError) as error:
            violation = error.violation if isinstance(error, PathRefusedError) else Violation.FORM
            if self._reported is not None and violation is not Violation.UNICODE:
                raise BadAnswerError(self._reported, error.message) from None
            return PathInfo(spelled(name), "", "file", refused=violation)


def judged(links: Mapping[str, str], validator: PathValidator) -> dict[str, str | Violation]:
    """Where links lead in the end; of those that lead out or round, that they do."""
    left, refused = dict(links), dict[str, Violation]()
    while True:
        try:
            ends = validator.validate_links(left)
        except PathRefusedError as error:
            if error.path not in left:
                raise
            refused[error.path] = error.violation
            del left[error.path]
            if len(refused) > _MOST_REFUSED:
                many = f"it has more than {_MOST_REFUSED} links that lead out or round"
                raise BadAnswerError("a folder", many) from None
            continue
        through = {link: _through(end, refused, validator) for link, end in ends.items()}
        return {**refused, **{link: through[link] or end for link, end in ends.items()}}


def _through(end: str, refused: Mapping[str, Violation], validator: PathValidator) -> Violation | None:
    """Where another link leads over one that is refused: what that one is refused for."""
    return next((why for path, why in refused.items() if validator.lies_in(end, path)), None)


def with_targets(entries: Iterable[PathInfo], targets: Mapping[str, str | Violation]) -> list[PathInfo]:
    return [_with_target(entry, targets) for entry in entries]


def _with_target(entry: PathInfo, targets: Mapping[str, str | Violation]) -> PathInfo:
    target = targets.get(entry.path)
    return replace(
        entry,
        target=None if isinstance(target, Violation) else target,
        refused=target if isinstance(target, Violation) else entry.refused,
        children=None if entry.children is None else tuple(with_targets(entry.children, targets)),
    )


def _count(entries: list[_Entry], wanted: str) -> int:
    waiting, counted = [(entries, 1)], 0
    while waiting:
        listed, depth = waiting.pop()
        counted += len(listed)
        if counted > MOST_ENTRIES or depth > _DEEPEST:
            raise BadAnswerError(wanted, f"it has more than {MOST_ENTRIES:,} entries, or {_DEEPEST} levels")
        waiting += [(entry.entries, depth + 1) for entry in listed if entry.entries]
    return counted
