"""The two word lists of the search: words that say nothing, and words that stand for each other.

Both are plain files beside this one, to be read and corrected by anybody: `stopwords.txt` and `synonyms.txt`, where
each line is a group of words of which one may be asked for and another be written.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

_COMMENT = "#"


@cache
def stopwords() -> frozenset[str]:
    return frozenset(word for line in _lines("stopwords.txt") for word in line.split())


@cache
def synonym_groups() -> tuple[str, ...]:
    """The groups of words that stand for each other, one line each."""
    return tuple(_lines("synonyms.txt"))


def _lines(name: str) -> list[str]:
    text = files("toolyard.codemode.search").joinpath(name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.strip() and not line.startswith(_COMMENT)]
