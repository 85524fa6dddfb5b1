"""Words of a query that are not in the index: unknown ones, and stopwords.

For an unknown word, indexed ones are suggested: one typo away, or with the same beginning. Stopwords are not indexed:
they would be most of the index and worth the least. A query that consists of stopwords only, such as `say it again`,
scans the names and summaries of all tools, which takes twenty milliseconds for four thousand tools.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence

from toolyard.codemode.search.bm25f import WEIGHT_UNITS
from toolyard.codemode.search.documents import split_identifier
from toolyard.codemode.search.ranking import Column
from toolyard.codemode.search.store import TOOL_BITS

_MIN_WORD_CHARS = 4
"""Shorter words are one typo away from too many others."""
_MAX_SUGGESTIONS = 4
_NAME_WEIGHT = WEIGHT_UNITS * 3 // 2
_SUMMARY_WEIGHT = WEIGHT_UNITS


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


def scan_tools(tools: Iterable[tuple[int, str, str]], wanted: Sequence[str]) -> dict[str, Column]:
    """Returns the matches of each word among tools, given as keys with names and summaries."""
    if not wanted:
        return {}
    any_of = "|".join(map(re.escape, wanted))
    whole, part = re.compile(rf"\b(?:{any_of})\b"), re.compile(any_of, re.IGNORECASE)
    columns: dict[str, Column] = {}
    for key, name, summary in tools:
        weights = dict.fromkeys(whole.findall(summary.lower()), _SUMMARY_WEIGHT)
        if part.search(name):  # splitting names is expensive, so only matching ones are split
            weights |= dict.fromkeys(whole.findall(split_identifier(name).lower()), _NAME_WEIGHT)
        for word, weight in weights.items():
            column = columns.setdefault(word, Column(array("I"), array("H"), array("I"), array("H")))
            column.tools.append(key)
            column.weights.append(weight)
            server = key >> TOOL_BITS
            if not column.servers or column.servers[-1] != server:
                column.servers.append(server)
                column.peaks.append(weight)
            else:
                column.peaks[-1] = max(column.peaks[-1], weight)
    return columns
