"""Bounds the regular expressions of detect-secrets, so that they take little time on every line.

Some of them backtrack badly: a thousand characters of `api_key` take a second, during which no other thread runs.
Their unbounded repeats get limits far beyond what real lines contain.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_UNBOUNDED = (
    ("recaptcha_.*key", r"recaptcha_\w{0,30}key"),
    (r"\w*", r"\w{0,30}"),
    (r"\s*", r"\s{0,10}"),
    (r"[^\s]{0,50}?", r"[^\s]{0,30}?"),
    (r"(?:.{0,100}\n?){0,2}", r".{0,200}"),
)
_LOOKED_UP = re.compile(r"(?::=?|[!=]{1,3})\s{0,10}([\w.-]{1,60}[\[(])")
_WORD_START = re.compile(r"\w{0,40}\Z")


def bound_pattern(pattern: re.Pattern[str]) -> re.Pattern[str]:
    """Returns the pattern with its unbounded repeats limited."""
    text = pattern.pattern
    for endless, bounded in _UNBOUNDED:
        text = text.replace(endless, bounded)
    return re.compile(text, pattern.flags)


def bound_patterns(groups: Mapping[re.Pattern[str], int]) -> dict[re.Pattern[str], int]:
    return {bound_pattern(pattern): group for pattern, group in groups.items()}


def is_looked_up(match: re.Match[str], group: int) -> bool:
    """Whether the value comes from a call or an index, as in `token = tokens[name]` and `x = get_token("name")`."""
    line = match.string
    closed = max(line.rfind(")"), line.rfind("]"))
    return any(
        found.end() <= closed
        and (found.start(1) == match.start(group) or found.start(1) <= match.start() < found.end())
        for found in _LOOKED_UP.finditer(line)
    )


def assignment_text(match: re.Match[str]) -> str:
    """Returns the name that is assigned to and the value, in lower case."""
    before = _WORD_START.search(match.string[max(0, match.start() - 40) : match.start()])
    return ((before[0] if before else "") + match[0]).lower()
