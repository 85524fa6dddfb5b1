"""The two word lists of the search: stopwords and synonyms.

Both are plain files beside this one that anybody can correct: `stopwords.txt`, and `synonyms.txt`, in which each line
is a group of interchangeable words.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

_COMMENT = "#"


@cache
def stopwords() -> frozenset[str]:
    """Returns the words that carry no meaning for search."""
    return frozenset(word for line in _lines("stopwords.txt") for word in line.split())


@cache
def synonym_groups() -> tuple[str, ...]:
    """Returns the groups of synonyms, one line each."""
    return tuple(_lines("synonyms.txt"))


def _lines(name: str) -> list[str]:
    text = files("toolyard.codemode.search").joinpath(name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.strip() and not line.startswith(_COMMENT)]
