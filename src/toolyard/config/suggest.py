"""The "did you mean" of every configuration error."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

CLOSE_ENOUGH = 0.55


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`Did you mean X?`, or the list of what is known where nothing comes close."""
    choices = sorted(set(known))
    lowered = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=CLOSE_ENOUGH)
    if close:
        return f'Did you mean "{lowered[close[0]]}"?'
    return f"Known here: {', '.join(choices)}."
