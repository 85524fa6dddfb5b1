"""Suggests indexed words for an unknown one: one typo away, or with the same beginning."""

from __future__ import annotations

import re
from collections.abc import Iterable

_MIN_WORD_CHARS = 4
"""Shorter words are one typo away from too many others."""
_MAX_SUGGESTIONS = 4


class SpellingCorrector:
    """All indexed words as one text that a pattern searches: small in memory, and fast without an index."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = "\n" + "\n".join(known) + "\n"

    def nearest_words(self, word: str) -> tuple[str, ...]:
        """Returns the indexed words nearest to an unknown one."""
        if len(word) < _MIN_WORD_CHARS or not word.isalpha():
            return ()
        slips = re.findall(f"(?<=\n)(?:{'|'.join(_typo_patterns(word))})(?=\n)", self._known)
        longer = re.findall(f"(?<=\n){word}[^\n]*(?=\n)", self._known)
        found: list[str] = [*slips, *sorted(longer, key=len)]
        return tuple(dict.fromkeys(found))[:_MAX_SUGGESTIONS]


def _typo_patterns(word: str) -> list[str]:
    """Returns patterns for one letter wrong, missing or extra, or two exchanged."""
    places = range(len(word))
    return [
        *(f"{word[:at]}[^\n]?{word[at + 1 :]}" for at in places),
        *(f"{word[:at]}[^\n]{word[at:]}" for at in range(len(word) + 1)),
        *(f"{word[:at]}{word[at + 1]}{word[at]}{word[at + 2 :]}" for at in places[:-1]),
    ]
