"""Fielded keyword weights (BM25F) of a tool, computed independently of other tools.

A word counts more in a name than in a description, more in a short text than in a long one, and less when it is
repeated. Lengths are compared with typical values instead of the indexed tools, so that a tool's weights do not
depend on what else is indexed, and one server can be replaced without touching the others.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass

from toolyard.codemode.search.documents import SearchFields
from toolyard.codemode.search.tokenizer import stemmed_words


@dataclass(frozen=True, slots=True)
class _FieldWeight:
    weight: float
    usual_words: int
    length_matters: float
    """From 0, where the length of the text does not matter, to 1."""


_FIELDS = (
    _FieldWeight(weight=2.0, usual_words=3, length_matters=0.0),  # server
    _FieldWeight(weight=2.0, usual_words=3, length_matters=0.2),  # name
    _FieldWeight(weight=1.0, usual_words=30, length_matters=0.6),  # description
    _FieldWeight(weight=0.6, usual_words=6, length_matters=0.6),  # parameter names
    _FieldWeight(weight=0.3, usual_words=40, length_matters=0.6),  # descriptions of the parameters
)
_SATURATION = 1.2
"""The larger, the more a repeated word adds."""
MAX_WEIGHT = _SATURATION + 1
"""The maximum weight of a word."""
WEIGHT_UNITS = 1_000
"""Weights are stored as integers, in this fraction of one."""
_SKETCH_WORDS = 16


@dataclass(frozen=True, slots=True)
class WeightedTool:
    """One tool, ready for the index."""

    weights: dict[str, int]
    """Weights by stem, in units."""
    name_key: str
    sketch: bytes
    """A sample of its words; tools with nearly the same text have nearly the same sample."""


def weigh_tool(fields: SearchFields) -> WeightedTool:
    """Returns the weights of a tool's words."""
    counted: dict[str, float] = {}
    texts = [stemmed_words(text) for text in fields.texts()]
    for field, found in zip(_FIELDS, texts, strict=True):
        longer = 1 - field.length_matters + field.length_matters * len(found) / field.usual_words
        each = field.weight / longer
        for word in found:
            counted[word] = counted.get(word, 0.0) + each
    weights = {word: _saturated_weight(count) for word, count in counted.items()}
    return WeightedTool(weights, " ".join(texts[1]), _sketch((*texts[1], *texts[2])))


def are_near_duplicates(one: bytes, other: bytes) -> bool:
    """Whether two sketches have most of their sample in common."""
    mine, theirs = set(array("I", one)), set(array("I", other))
    return len(mine & theirs) * 3 >= len(mine | theirs)


def _saturated_weight(count: float) -> int:
    return max(1, round(WEIGHT_UNITS * count * (_SATURATION + 1) / (_SATURATION + count)))


def _sketch(found: Iterable[str]) -> bytes:
    hashes = sorted({zlib.crc32(word.encode("utf-8", "replace")) for word in found})
    return array("I", hashes[:_SKETCH_WORDS]).tobytes()
