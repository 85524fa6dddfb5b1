"""Parses votes.

A vote is the end of a text: a line `VOTE: <agent id>` and at most a short reason below it. Bold type, code marks,
headings, case and a full stop after the name are ignored. Quoted text (`>`, `|`, a code block) and the middle of a
sentence do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_MAX_WHY: Final = 2_000
_MAX_WORDS: Final = 5
"""Words after the colon. More is an ordinary sentence."""
_LINE: Final = re.compile(
    r"\s{0,3}(?:#{1,6}\s+|[-*+]\s+)?[*_`~]{0,4}vote[*_`~]{0,4}\s*[:\uff1a](?P<rest>.*)", re.IGNORECASE
)
_FENCE: Final = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_AROUND: Final = "*`~\"'\u201c\u201d\u2018\u2019<>[]() \t"
_BEHIND: Final = ".,;:!?"
_MAX_BEHIND: Final = 8
_REASON: Final = re.compile(r"\s+(?:[-\u2013\u2014]+|because\b)\s*|\s*[,;:(]\s+|\s+\(", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Vote:
    """A vote and its reason."""

    choice: str
    """The agent voted for; empty if the name is unknown."""
    why: str = ""


def parse_vote(text: str, agents: Sequence[str]) -> Vote | None:
    """Returns the vote for one of `agents` at the end of a text; None if the text is an answer."""
    lines = _strip_fence(text).splitlines()
    found = [*_candidates(lines)]
    if not found:
        return None
    number, match = found[-1]
    below = "\n".join(lines[number + 1 :]).strip()
    if len(below) > _MAX_WHY:
        return None
    name, reason = _split_reason(match["rest"], agents)
    if not name or len(name.split()) > _MAX_WORDS:
        return None
    return Vote(_match_agent(name, agents), " ".join(f"{reason} {below}".split()))


def _strip_fence(text: str) -> str:
    """Removes a code block that encloses the whole text."""
    lines = text.strip().splitlines()
    is_block = len(lines) > 2 and _FENCE.match(lines[0]) and _FENCE.fullmatch(lines[-1].rstrip())
    return "\n".join(lines[1:-1]) if is_block else text


def _candidates(lines: Sequence[str]) -> Iterator[tuple[int, re.Match[str]]]:
    fence = ""
    for number, line in enumerate(lines):
        opens = _FENCE.match(line)
        if fence:
            if opens and opens[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif opens:
            fence = opens[1]
        elif match := _LINE.fullmatch(line):
            yield number, match


def _split_reason(rest: str, agents: Sequence[str]) -> tuple[str, str]:
    """Splits the name from a reason on the same line."""
    # Single spaces only: with a million spaces the pattern for a reason would take quadratic time.
    whole = " ".join(rest.split()).strip(_AROUND)
    if _match_agent(whole, agents):
        return whole, ""
    cut = _REASON.search(whole)
    if cut and cut.start() and _match_agent(whole[: cut.start()], agents):
        return whole[: cut.start()], whole[cut.end() :].strip()
    return whole, ""


def _match_agent(name: str, agents: Sequence[str]) -> str:
    """Returns the agent that is named: exactly, else without punctuation, else ignoring case."""
    bare = name.strip(_AROUND)
    spellings = [name, bare]
    # One at a time: a name may itself end with a full stop, and another agent have the name without it.
    for _ in range(_MAX_BEHIND):
        if bare[-1:] not in _AROUND + _BEHIND:
            break
        bare = bare[:-1].lstrip(_BEHIND)
        spellings.append(bare)
    for spelling in spellings:
        if spelling in agents:
            return spelling
    for spelling in spellings:
        meant = [agent for agent in agents if agent.casefold() == spelling.casefold()]
        if meant:
            return meant[0] if len(meant) == 1 else ""
    return ""
