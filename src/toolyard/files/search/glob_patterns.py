"""Globs matched in Python, for listings without ripgrep: `*`, `?`, `[a-z]`, `{a,b}`, and `**`.

No pattern can make matching slow: brace expansion is limited, the stars of a segment match the leftmost place without
backtracking, and `**` backtracks only to the last one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from toolyard.core.errors import ValidationError
from toolyard.core.limits import Limits

_MOST_ALTERNATIVES = 256
_ANY_FOLDERS = "**"
_HINT = "Use fewer braces, or several patterns."

Segment = re.Pattern[str] | None
"""The pattern of one name; None means `**`."""


@dataclass(frozen=True, slots=True)
class Glob:
    """A compiled glob: its alternatives, each a tuple of segments."""

    alternatives: tuple[tuple[Segment, ...], ...]

    def matches(self, parts: Sequence[str]) -> bool:
        """Returns whether a path, split into names, matches as a whole."""
        return any(_matches(segments, parts) for segments in self.alternatives)


def compile_glob(
    pattern: str, field: str, limits: Limits, *, ignore_case: bool = False, any_depth: bool = False
) -> Glob:
    """Compiles a glob. With `any_depth` a pattern without a slash matches at every depth, as ignore rules do."""
    if not pattern:
        raise ValidationError.of(field, "is empty", hint="Send a pattern such as **/*.py.")
    if len(pattern) > limits.pattern_chars:
        raise ValidationError.of(
            field, f"is longer than {limits.pattern_chars:,} characters", hint="Send a shorter pattern."
        )
    flags = re.DOTALL | (re.IGNORECASE if ignore_case else re.NOFLAG)
    rows: list[tuple[Segment, ...]] = []
    for plain in _expand_braces(pattern, field):
        names = [name for name in plain.split("/") if name not in {"", "."}]
        if any_depth and len(names) == 1 and not plain.startswith("/"):
            names.insert(0, _ANY_FOLDERS)
        rows.append(
            tuple(None if name == _ANY_FOLDERS else re.compile(_segment_regex(name), flags) for name in names)
        )
    return Glob(tuple(rows))


def _matches(segments: tuple[Segment, ...], parts: Sequence[str]) -> bool:
    """Matches greedily, with one backtrack: to the last `**`, which then takes one more folder."""
    at = part = 0
    back: tuple[int, int] | None = None
    while part < len(parts):
        segment = segments[at] if at < len(segments) else ...
        if segment is None:
            back = (at + 1, part)
            at += 1
        elif segment is not ... and segment.fullmatch(parts[part]):
            at, part = at + 1, part + 1
        elif back is not None:
            back = (back[0], back[1] + 1)
            at, part = back
        else:
            return False
    return all(segment is None for segment in segments[at:])


def _expand_braces(pattern: str, field: str) -> list[str]:
    """Returns the patterns without braces that `pattern` stands for."""
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        current = waiting.pop()
        group = _first_group(current)
        if group is None:
            done.append(current)
        else:
            before, options, after = group
            waiting.extend(before + option + after for option in options)
        if len(done) + len(waiting) > _MOST_ALTERNATIVES:
            raise ValidationError.of(field, f"expands to more than {_MOST_ALTERNATIVES} alternatives", hint=_HINT)
    return done


def _first_group(pattern: str) -> tuple[str, list[str], str] | None:
    """Returns the text before the first complete `{...}`, its options, and the text after it; None without one."""
    opened = -1
    depth = 0
    cuts: list[int] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            at += 1
        elif character == "{":
            depth += 1
            if depth == 1:
                opened, cuts = at, [at]
        elif character == "," and depth == 1:
            cuts.append(at)
        elif character == "}" and depth:
            depth -= 1
            if depth == 0:
                cuts.append(at)
                options = [pattern[a + 1 : b] for a, b in pairwise(cuts)]
                return pattern[:opened], options, pattern[at + 1 :]
        at += 1
    return None


def _segment_regex(name: str) -> str:
    """Returns the regular expression of one name. The text after each star is in an atomic group."""
    pieces: list[str] = [""]
    at = 0
    while at < len(name):
        character = name[at]
        at += 1
        if character == "*":
            pieces.append("")
        elif character == "?":
            pieces[-1] += "."
        elif character == "\\" and at < len(name):
            pieces[-1] += re.escape(name[at])
            at += 1
        elif character == "[" and (end := _class_end(name, at)) > 0:
            pieces[-1] += _class_regex(name[at:end])
            at = end + 1
        else:
            pieces[-1] += re.escape(character)
    first, *starred = pieces
    if not starred:
        return first
    *middle, last = starred
    return first + "".join(f"(?>.*?{piece})" for piece in middle if piece) + ".*" + last


def _class_end(name: str, at: int) -> int:
    """Returns the position of the `]` of a class that begins before `at`; -1 if there is none."""
    first = at + 1 if name[at : at + 1] in {"!", "^"} else at
    return name.find("]", first + 1)


def _class_regex(inner: str) -> str:
    negated = inner[0] in {"!", "^"}
    body = re.sub(r"[\\\[\]^&~|]", r"\\\g<0>", inner[1:] if negated else inner)
    try:
        return re.compile(f"[{'^' if negated else ''}{body}]").pattern
    except re.error:  # such as [z-a], which matches no character
        return r"(?!)"
