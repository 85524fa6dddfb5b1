"""Keywords and meaning together: a tool gains from its own nearness to the query and from that of its server.

Every tool has a nearness, so this is done for all of them at once (numpy, which the extra `semantic` brings).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from toolyard.codemode.search.ranking import Ranking
from toolyard.codemode.search.store import TOOL_BITS

_MEANING_WEIGHT = 1.5
"""What nearness in meaning counts beside the keywords' score."""
_COVERAGE_WEIGHT = 0.25
"""What the server's cover counts beside the tool's words and meaning together."""
_SERVER_WEIGHT = 0.25
"""What the server's own nearness counts beside the same."""


@dataclass(frozen=True, slots=True)
class SemanticNearness:
    """How near in meaning tools and servers are to a query; the nearest of each have 1."""

    keys: Any
    """Of the tools that have a vector, in order: an array."""
    tools: Any
    """How near each of them is."""
    servers: Mapping[int, float]


def hybrid_scores(
    ranking: Ranking, near: SemanticNearness, most: int, servers: Collection[int] | None = None
) -> dict[int, float]:
    """The best scores by the tool's key, `most` of them, of `servers` alone where they are given.

    At most 1. Also finds tools that share no word with the query.
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
    """Keys and scores of all tools that have a vector or a word of the query, by themselves."""
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
