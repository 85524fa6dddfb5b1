"""The "did you mean" of every configuration error."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

CLOSE_ENOUGH = 0.55
_COMPARED_CHARS = 100
"""Of a wrong word: comparing takes the longer the longer it is."""
_MOST_LISTED = 20


def closest(word: str, known: Iterable[str]) -> str:
    """What was probably meant, however it is cased; empty where nothing comes close."""
    lowered = {choice.lower(): choice for choice in sorted(set(known))}
    close = difflib.get_close_matches(word[:_COMPARED_CHARS].lower(), lowered, n=1, cutoff=CLOSE_ENOUGH)
    return lowered[close[0]] if close else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`Did you mean X?`, or the list of what is known where nothing comes close."""
    choices = sorted(set(known))
    if meant := closest(word, choices):
        return f'Did you mean "{meant}"?'
    if not choices:
        return "There is none here."
    more = f" and {len(choices) - _MOST_LISTED} more" if len(choices) > _MOST_LISTED else ""
    return f"Known here: {', '.join(choices[:_MOST_LISTED])}{more}."
