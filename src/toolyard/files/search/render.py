"""Formats matches as ripgrep does, and cuts them into pages.

`path:12:line` is a match, `path-12-line` its context, `--` separates groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from toolyard.core.limits import Limits
from toolyard.files.search.grep_query import GrepQuery
from toolyard.files.search.ripgrep_output import FileMatches
from toolyard.files.search.scope import SearchScope

_LINE = re.compile(rb"(\d+)([:-])(.*)", re.DOTALL)
_MATCHING_LINE = re.compile(rb"^\d+:", re.MULTILINE)
GROUP_SEPARATOR = "--"


@dataclass(frozen=True, slots=True)
class ResultLine:
    """One line of the result and the file that it belongs to ("" for a separator)."""

    text: str
    file: str


@dataclass(frozen=True, slots=True)
class ResultPage:
    """The requested lines; `first` is the index of the first, from 0; `more` says that others follow."""

    lines: tuple[str, ...]
    files: tuple[str, ...]
    first: int
    more: bool

    def note(self, *, stopped: bool) -> str:
        """Returns how to get the remaining lines; empty if there are none."""
        if not self.more:
            return ""
        if not self.lines:
            return f"Nothing at offset {self.first} fits; raise head_limit or narrow the search."
        end = self.first + len(self.lines)
        after = "" if stopped else f" Use offset {end} for what follows."
        return f"Showing lines {self.first + 1} to {end}; there are more.{after}"


def render_lines(scope: SearchScope, query: GrepQuery, found: Sequence[FileMatches]) -> Iterator[ResultLine]:
    """Yields the lines of the result, in the order of `found`, lazily."""
    separated = query.output_mode == "content" and query.has_context
    for index, record in enumerate(found):
        path = scope.display_path(record.name)
        if separated and index:
            yield ResultLine(GROUP_SEPARATOR, "")
        match query.output_mode:
            case "content":
                yield from _content_lines(path, record.body, numbered=query.line_numbers)
            case "count":
                yield ResultLine(f"{path}:{record.body.decode()}", path)
            case "files_with_matches":
                yield ResultLine(path, path)


def _content_lines(path: str, body: bytes, *, numbered: bool) -> Iterator[ResultLine]:
    for raw in body.split(b"\n"):
        parts = _LINE.fullmatch(raw)
        if parts is None:
            yield (
                ResultLine(GROUP_SEPARATOR, "") if raw == b"--" else ResultLine(f"{path}: binary file matches", path)
            )
            continue
        number, mark, text = (part.decode("utf-8", "replace") for part in parts.groups())
        text = text.removesuffix("\r")
        yield ResultLine(f"{path}{mark}{number}{mark}{text}" if numbered else f"{path}{mark}{text}", path)


def count_matches(query: GrepQuery, found: Sequence[FileMatches]) -> int:
    """Counts the matches: lines, or files if only files were requested."""
    match query.output_mode:
        case "files_with_matches":
            return len(found)
        case "count":
            return sum(int(record.body) for record in found)
        case "content" if query.has_context:
            return sum(len(_MATCHING_LINE.findall(record.body)) for record in found)
        case "content":
            return sum(record.body.count(b"\n") + 1 for record in found)


def page_of_lines(lines: Iterable[ResultLine], query: GrepQuery, limits: Limits) -> ResultPage:
    """Returns the lines from `offset` on, at most `head_limit` lines and `output_chars` characters."""
    taken: list[str] = []
    files: dict[str, None] = {}
    left = limits.output_chars
    for number, line in enumerate(lines):
        if number < query.offset:
            continue
        left -= len(line.text) + 1
        if left < 0 or (query.head_limit and len(taken) == query.head_limit):
            return ResultPage(tuple(taken), tuple(files), query.offset, more=True)
        taken.append(line.text)
        if line.file:
            files[line.file] = None
    return ResultPage(tuple(taken), tuple(files), query.offset, more=False)
