"""The "did you mean" of every configuration error."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SIMILARITY_CUTOFF = 0.55
_MAX_COMPARED_CHARS = 100
"""Of a wrong word: comparing takes the longer the longer it is."""
_MAX_LISTED = 20


def closest_match(word: str, known: Iterable[str]) -> str:
    """What was probably meant, however it is cased; empty where nothing comes close."""
    lowered = {choice.lower(): choice for choice in sorted(set(known))}
    close = difflib.get_close_matches(word[:_MAX_COMPARED_CHARS].lower(), lowered, n=1, cutoff=SIMILARITY_CUTOFF)
    return lowered[close[0]] if close else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`Did you mean X?`, or the list of what is known where nothing comes close."""
    choices = sorted(set(known))
    if meant := closest_match(word, choices):
        return f'Did you mean "{meant}"?'
    if not choices:
        return "There is none here."
    more = f" and {len(choices) - _MAX_LISTED} more" if len(choices) > _MAX_LISTED else ""
    return f"Known here: {', '.join(choices[:_MAX_LISTED])}{more}."
