"""Validates a Grep query and turns it into ripgrep options.

All input is data: no text of the caller can become an option, a configuration file, a preprocessor or an exclusion.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from toolyard.core.errors import ValidationError
from toolyard.core.limits import Limits
from toolyard.files.search.ripgrep import check_argument, glob_option

OutputMode = Literal["content", "files_with_matches", "count"]

MOST_CONTEXT = 1_000
COLUMNS = 500
"""Longer lines are cut: one line of a minified file must not fill the answer."""
_TYPE_NAME = re.compile(r"[A-Za-z0-9_+.-]{1,64}")
_SHAPE: dict[str, tuple[str, ...]] = {
    "content": ("--heading", "--line-number", "--with-filename"),
    "files_with_matches": ("--files-with-matches",),
    "count": ("--count", "--with-filename"),
}


@dataclass(frozen=True, slots=True)
class GrepQuery:
    """One search. `context` is the default of `before` and `after`; `head_limit` 0 means no limit."""

    pattern: str
    output_mode: OutputMode = "files_with_matches"
    glob: str | None = None
    type: str | None = None
    case_insensitive: bool = False
    line_numbers: bool = True
    before: int = 0
    after: int = 0
    context: int = 0
    multiline: bool = False
    head_limit: int = 0
    offset: int = 0

    @property
    def has_context(self) -> bool:
        return max(self.before, self.after, self.context) > 0


@dataclass(frozen=True, slots=True)
class GrepOptions:
    """Options of ripgrep: which files to search, and what to search for."""

    files: tuple[str, ...]
    matching: tuple[str, ...]


def ripgrep_options(query: GrepQuery, limits: Limits) -> GrepOptions:
    """Returns the query as options. Raises ValidationError if it is invalid."""
    if query.output_mode not in get_args(OutputMode):
        raise ValidationError.of(
            "output_mode", f"{query.output_mode!r} is not one of {', '.join(get_args(OutputMode))}"
        )
    for name in ("before", "after", "context", "head_limit", "offset"):
        _check_number(name, getattr(query, name), name in {"before", "after", "context"})
    return GrepOptions(tuple(_file_options(query, limits)), tuple(_match_options(query, limits)))


def _check_number(name: str, value: int, is_context: bool) -> None:
    if value < 0:
        raise ValidationError.of(name, "is negative", hint="Send 0 or more.")
    if is_context and value > MOST_CONTEXT:
        raise ValidationError.of(name, f"is more than {MOST_CONTEXT:,}", hint="Read the file instead.")


def _file_options(query: GrepQuery, limits: Limits) -> Iterator[str]:
    if query.type is not None:
        check_argument(query.type, "type", max_chars=limits.pattern_chars)
        if not _TYPE_NAME.fullmatch(query.type):
            raise ValidationError.of("type", "is not a file type", hint="Use names such as py, js, rust.")
        yield f"--type={query.type}"
    if query.glob is not None:
        check_argument(query.glob, "glob", max_chars=limits.pattern_chars)
        for pattern in split_globs(query.glob):
            yield glob_option(pattern)


def _match_options(query: GrepQuery, limits: Limits) -> Iterator[str]:
    check_argument(query.pattern, "pattern", max_chars=limits.pattern_chars)
    yield from _SHAPE[query.output_mode]
    if query.case_insensitive:
        yield "--ignore-case"
    if query.multiline:
        yield from ("--multiline", "--multiline-dotall")
    if query.output_mode == "content":
        yield from (f"--max-columns={min(COLUMNS, limits.line_chars)}", "--max-columns-preview")
        yield f"--before-context={query.before or query.context}"
        yield f"--after-context={query.after or query.context}"
    yield f"--regexp={query.pattern}"


def split_globs(text: str) -> tuple[str, ...]:
    """Splits `text` into patterns at spaces and commas, except for commas within braces, as in `*.{ts,tsx} *.js`."""
    pieces: list[str] = [""]
    depth = 0
    for character in text:
        depth += (character == "{") - (character == "}" and depth > 0)
        if character.isspace() or (character == "," and depth == 0):
            pieces.append("")
        else:
            pieces[-1] += character
    return tuple(piece for piece in pieces if piece)
