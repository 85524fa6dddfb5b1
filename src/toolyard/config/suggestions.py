"""The "did you mean" hints of configuration errors."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SIMILARITY_CUTOFF = 0.55
_MAX_COMPARED_CHARS = 100
"""Only this much of an unknown word is compared, because comparison time grows with its length."""
_MAX_LISTED = 20


def closest_match(word: str, known: Iterable[str]) -> str:
    """Returns the most similar known word, ignoring case; empty if none is similar enough."""
    lowered = {choice.lower(): choice for choice in sorted(set(known))}
    close = difflib.get_close_matches(word[:_MAX_COMPARED_CHARS].lower(), lowered, n=1, cutoff=SIMILARITY_CUTOFF)
    return lowered[close[0]] if close else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns `Did you mean X?`, or the list of known words if none is similar enough."""
    choices = sorted(set(known))
    if meant := closest_match(word, choices):
        return f'Did you mean "{meant}"?'
    if not choices:
        return "None are defined here."
    more = f" and {len(choices) - _MAX_LISTED} more" if len(choices) > _MAX_LISTED else ""
    return f"Known here: {', '.join(choices[:_MAX_LISTED])}{more}."
