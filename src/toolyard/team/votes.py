"""Whether an answer is a vote, and for whom.

A vote is the end of a text: a line `VOTE: <agent id>`, and below it at most a few words that say why. Bold type, code
marks, headings, case and a full stop after the name do not matter. What is quoted (`>`, `|`, a code block) or said in
the middle of a sentence is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_MAX_WHY: Final = 2_000
_MAX_WORDS: Final = 5
"""Of what stands after the colon. More is a sentence that happens to begin so."""
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
    choice: str
    """The agent voted for; empty where the name is nobody's."""
    why: str = ""


def parse_vote(text: str, agents: Sequence[str]) -> Vote | None:
    """The vote that a text ends with, for one of these agents; None where it is an answer."""
    lines = _strip_fence(text).splitlines()
    found = [*_candidates(lines)]
    if not found:
        return None
    number, match = found[-1]
    below = "\n".join(lines[number + 1 :]).strip()
    if len(below) > _MAX_WHY:
        return None
    name, beside = _split_reason(match["rest"], agents)
    if not name or len(name.split()) > _MAX_WORDS:
        return None
    return Vote(_match_agent(name, agents), " ".join(f"{beside} {below}".split()))


def _strip_fence(text: str) -> str:
    """Without the code block that is all there is."""
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
    """The name, and a reason on the same line."""
    # One space between words: a line may hold a million, and what looks for a reason would try from each of them.
    whole = " ".join(rest.split()).strip(_AROUND)
    if _match_agent(whole, agents):
        return whole, ""
    cut = _REASON.search(whole)
    if cut and cut.start() and _match_agent(whole[: cut.start()], agents):
        return whole[: cut.start()], whole[cut.end() :].strip()
    return whole, ""


def _match_agent(name: str, agents: Sequence[str]) -> str:
    """The agent that is meant: exactly, else without what surrounds the name, else whatever its case."""
    bare = name.strip(_AROUND)
    spellings = [name, bare]
    # One by one: a name may end with a full stop of its own, and another agent's be the same without it.
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
