"""Combines keyword scores with semantic similarity of tools and their servers.

Every tool has a similarity, so all tools are scored at once (with numpy, which the extra `semantic` installs).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from toolyard.codemode.search.ranking import Ranking
from toolyard.codemode.search.store import TOOL_BITS

_MEANING_WEIGHT = 1.5
"""Weight of the semantic similarity, relative to the keyword score."""
_COVERAGE_WEIGHT = 0.25
"""Weight of the server's coverage, relative to the tool's keywords and meaning together."""
_SERVER_WEIGHT = 0.25
"""Weight of the server's own similarity, relative to the same."""


@dataclass(frozen=True, slots=True)
class SemanticNearness:
    """The similarity of tools and servers to a query; the nearest of each have 1."""

    keys: Any
    """Sorted array of the keys of tools that have a vector."""
    tools: Any
    """The similarity of each of them."""
    servers: Mapping[int, float]


def hybrid_scores(
    ranking: Ranking, near: SemanticNearness, most: int, servers: Collection[int] | None = None
) -> dict[int, float]:
    """Returns the `most` best scores by tool key, optionally only for `servers`.

    Scores are at most 1. Also finds tools that share no word with the query.
    """
    numpy: Any = import_module("numpy")
    keys, scores = _tool_scores(ranking, near)
    of = keys >> TOOL_BITS
    gains = numpy.zeros(1 + max((int(of.max(initial=0)), *ranking.servers, *near.servers)))
    for share, each in ((_COVERAGE_WEIGHT, ranking.servers), (_SERVER_WEIGHT, near.servers)):
        gains[list(each)] += share * numpy.fromiter(each.values(), float, len(each))
    scores = (scores / (1 + _MEANING_WEIGHT) + gains[of]) / (1 + _COVERAGE_WEIGHT + _SERVER_WEIGHT)
    if servers is not None:
        allowed = numpy.isin(of, list(servers))
        keys, scores = keys[allowed], scores[allowed]
    if len(keys) > most:
        best = numpy.argpartition(scores, -most)[-most:]
        keys, scores = keys[best], scores[best]
    return dict(zip(keys.tolist(), scores.tolist(), strict=True))


def _tool_scores(ranking: Ranking, near: SemanticNearness) -> tuple[Any, Any]:
    """Returns keys and scores of all tools that have a vector or a word of the query, without their servers."""
    numpy: Any = import_module("numpy")
    count = len(ranking.tools)
    named = numpy.fromiter(ranking.tools, numpy.int64, count)
    words = numpy.fromiter(ranking.tools.values(), float, count)
    words /= words.max(initial=0.0) or 1.0
    scores = _MEANING_WEIGHT * near.tools
    if not len(near.keys):
        return named, words
    places = numpy.minimum(numpy.searchsorted(near.keys, named), len(near.keys) - 1)
    known = near.keys[places] == named
    scores[places[known]] += words[known]
    return numpy.concatenate((near.keys, named[~known])), numpy.concatenate((scores, words[~known]))
