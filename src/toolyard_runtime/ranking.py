"""Ranked keyword search over a few thousand short texts: BM25, computed on demand. Pure.

The search over tools has its own index. A memory is small and changes all the time: counting its words again is
cheaper than maintaining an index. The host and the code in its sandbox rank alike.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

_SATURATION, _LENGTH_SHARE = 1.2, 0.75
_WORD = re.compile(r"[^\W_]+")
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ENDINGS = ("ing", "ies", "ed", "es", "s")
_SHORTEST_STEM = 3
_MOST_QUERY_WORDS = 50
_LONGEST_WORD = 100
_MOST_REMEMBERED = 1 << 15


def stemmed_words(text: str) -> list[str]:
    """Returns the words of a text in lower case without the most common endings; `createIndex` is two words."""
    return [stem for word in _WORD.findall(text) for stem in _stems(word)]


@lru_cache(maxsize=_MOST_REMEMBERED)
def _stems(word: str) -> tuple[str, ...]:
    return tuple(_stem(part.lower()) for part in _CAMEL_CASE.split(word[:_LONGEST_WORD]))


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            stem = word[: -len(ending)] + ("y" if ending == "ies" else "")
            return stem.removesuffix("e")
    return word.removesuffix("e") if len(word) > _SHORTEST_STEM else word


_STOP_WORDS = frozenset(
    stemmed_words(
        "a an and are as at be by did do does for from had has have how i in is it my of on or our the their there"
        " this to was we were what when where which who why will with you your"
    )
)
"""Words without meaning for a query. In a small memory they are rare, and would get a high weight."""


def query_words(query: str) -> set[str]:
    """Returns the significant words of a query; all of them if none is significant."""
    asked = stemmed_words(query)[:_MOST_QUERY_WORDS]
    return {word for word in asked if word not in _STOP_WORDS} or set(asked)


def rank(query: str, texts: Sequence[str], top: int) -> list[tuple[float, int]]:
    """Returns the best `top` texts that contain a word of the query, as score and position.

    Of texts with equal scores the later one comes first.
    """
    wanted = query_words(query)
    counted = [Counter(stemmed_words(text)) for text in texts]
    if not wanted or not counted:
        return []
    lengths = [counts.total() for counts in counted]
    average = max(sum(lengths) / len(lengths), 1.0)
    holders = {word: sum(1 for counts in counted if word in counts) for word in wanted}
    weights = {word: math.log1p((len(counted) - n + 0.5) / (n + 0.5)) for word, n in holders.items() if n}
    scored: list[tuple[float, int]] = []
    for position, (counts, length) in enumerate(zip(counted, lengths, strict=True)):
        base = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * length / average)
        score = sum(
            weight * counts[word] * (_SATURATION + 1) / (counts[word] + base)
            for word, weight in weights.items()
            if counts[word]
        )
        if score:
            scored.append((score, position))
    scored.sort(key=lambda pair: (-pair[0], -pair[1]))
    return scored[:top]
