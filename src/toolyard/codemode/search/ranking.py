"""Ranks tools for a query by keywords.

- Rare words count more than common ones; rarity is measured over tools and servers.
- A word also matches its synonyms, with less weight, and similar spellings if the word itself does not occur.
- In a long query each tool is judged by the whole query and by the one sentence that fits it best.
- A tool gains from its server, the more of the query the server's tools cover together. Large servers cover more by
  chance, so their coverage counts less.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from toolyard.codemode.search.bm25f import MAX_WEIGHT, WEIGHT_UNITS
from toolyard.codemode.search.store import TOOL_BITS, Posting
from toolyard.codemode.search.tokenizer import split_sentences, stemmed_words, stopwords_in, synonyms_by_stem

_LONGEST_QUERY = 8_000
"""Characters that are read of a query."""
_MAX_WORDS = 400
"""Distinct words of a query that are used."""
_MAX_SENTENCES = 60
_FEWEST_WORDS = 2
"""Words of a sentence that is judged by itself."""
_MAX_TO_SPELL = 12
"""Words of a query that is checked for typos; unknown words of a longer one are usually not typos."""
_SYNONYM_WEIGHT = 0.4
"""Weight of a synonym, relative to the word itself."""
_SENTENCE_WEIGHT = 0.5
"""Weight of the best sentence; the whole query has the rest."""
_SERVER_WEIGHT = 0.35
"""Weight of the server's coverage, relative to the tool's own score."""


@dataclass(frozen=True, slots=True)
class Column:
    """All matches of one word: tools with their weights, and the best weight in each server."""

    tools: array[int]
    weights: array[int]
    servers: array[int]
    peaks: array[int]


LookUpColumns = Callable[[Sequence[str]], Mapping[str, Column]]
"""Returns the columns of those words that are indexed."""
NearestWords = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Totals of everything that is indexed."""

    tools: int
    sizes: dict[int, int]
    """Number of tools by server."""


@dataclass(frozen=True, slots=True)
class Query:
    """The words of a query with their weights, and those of each sentence that is judged by itself."""

    words: dict[str, float]
    parts: tuple[dict[str, float], ...]
    is_stopwords_only: bool = False
    """Whether it has only stopwords, which are not indexed."""

    @classmethod
    def parse(cls, text: str) -> Query:
        text = text[:_LONGEST_QUERY]
        found = dict(list(_word_weights(text).items())[:_MAX_WORDS])
        if not found:
            small = dict.fromkeys(stopwords_in(text)[:_MAX_WORDS], 1.0)
            return cls(small, (), is_stopwords_only=bool(small))
        parts = [_word_weights(part) for part in split_sentences(text)[:_MAX_SENTENCES]]
        parts = [{word: weight for word, weight in part.items() if word in found} for part in parts]
        alone = tuple(part for part in parts if len(part) >= _FEWEST_WORDS)
        return cls(found, alone if len(alone) > 1 else ())


@dataclass(frozen=True, slots=True)
class Ranking:
    """The scores of a query's words, before they are combined."""

    tools: dict[int, float]
    """Scores by tool key; at most 1."""
    servers: dict[int, float]
    """How much of the query each server covers; the best has 1."""


@dataclass(slots=True)
class _WordMatches:
    """The matches of one word: for each tool, the best of the word and its synonyms."""

    tools: dict[int, float] = field(default_factory=dict[int, float])
    servers: dict[int, float] = field(default_factory=dict[int, float])


def read_columns(postings: Iterable[Posting]) -> dict[str, Column]:
    """Returns the columns by word, from the rows of the index."""
    found: dict[str, Column] = {}
    for posting in postings:
        column = found.get(posting.word)
        if column is None:
            column = found[posting.word] = Column(array("I"), array("H"), array("I"), array("H"))
        numbers = array("H", posting.data)
        half = len(numbers) >> 1
        first = posting.server << TOOL_BITS
        column.tools.extend([first + place for place in numbers[:half]])
        column.weights.extend(numbers[half:])
        column.servers.append(posting.server)
        column.peaks.append(posting.peak)
    return found


def rank_tools(query: Query, corpus: Corpus, lookup: LookUpColumns, nearest: NearestWords) -> Ranking:
    """Scores the tools and servers that match the query."""
    found = _look_up_words(query, corpus, lookup, nearest)
    scores = _total_scores(query.words, found)
    if query.parts and scores:
        best: dict[int, float] = {}
        for part in query.parts:
            for tool, score in _total_scores(part, found).items():
                if score > best.get(tool, 0.0):
                    best[tool] = score
        for tool in scores:
            scores[tool] = (1 - _SENTENCE_WEIGHT) * scores[tool] + _SENTENCE_WEIGHT * best.get(tool, 0.0)
    return Ranking(scores, _server_coverage(query, corpus, found))


def keyword_scores(ranking: Ranking) -> dict[int, float]:
    """Returns scores by tool key; 1 means every word in the best place."""
    gain = _SERVER_WEIGHT * max(ranking.tools.values(), default=0.0)
    gains = {server: gain * share for server, share in ranking.servers.items()}
    return {
        tool: (score + gains.get(tool >> TOOL_BITS, 0.0)) / (1 + _SERVER_WEIGHT)
        for tool, score in ranking.tools.items()
    }


def _word_weights(text: str) -> dict[str, float]:
    return {word: 1 + math.log(count) for word, count in Counter(stemmed_words(text)).items()}


def _look_up_words(
    query: Query, corpus: Corpus, lookup: LookUpColumns, nearest: NearestWords
) -> dict[str, _WordMatches]:
    wanted = query.words
    others = {word: [other for other in synonyms_by_stem().get(word, ()) if other not in wanted] for word in wanted}
    known = dict(lookup(list(dict.fromkeys([*wanted, *(other for each in others.values() for other in each)]))))
    if len(wanted) <= _MAX_TO_SPELL:
        for word in wanted:
            if word not in known and not any(other in known for other in others[word]):
                others[word] = list(nearest(word))
                known.update(lookup([other for other in others[word] if other not in known]))
    rarities = {word: _rarity(column, corpus) for word, column in known.items()}
    counts = {
        word: _spelling_weights(word, [other for other in others[word] if other in known], rarities)
        for word in wanted
    }
    most = sum(weight * max(counts[word].values(), default=0.0) for word, weight in wanted.items()) or 1.0
    scale = 1 / (most * MAX_WEIGHT * WEIGHT_UNITS)
    found: dict[str, _WordMatches] = {}
    for word in wanted:
        gathered = found[word] = _WordMatches()
        for spelling, worth in counts[word].items():
            column = known[spelling]
            if spelling == word:
                gathered.tools = _scale_weights(column.tools, column.weights, scale * worth)
                gathered.servers = _scale_weights(column.servers, column.peaks, scale * worth)
            else:
                _keep_best(gathered.tools, column, scale * worth)
    return found


def _spelling_weights(word: str, others: list[str], rarities: dict[str, float]) -> dict[str, float]:
    """Returns the weights of a word and its alternatives; a synonym never counts more than the word."""
    if word not in rarities:
        return {other: _SYNONYM_WEIGHT * rarities[other] for other in others}
    own = rarities[word]
    return {word: own, **{other: min(own, _SYNONYM_WEIGHT * rarities[other]) for other in others}}


def _scale_weights(keys: array[int], weights: array[int], factor: float) -> dict[int, float]:
    return dict(zip(keys, [factor * weight for weight in weights], strict=True))


def _keep_best(tools: dict[int, float], column: Column, factor: float) -> None:
    have = tools.get
    for tool, weight in zip(column.tools, column.weights, strict=True):
        score = factor * weight
        if score > have(tool, 0.0):
            tools[tool] = score


def _total_scores(wanted: dict[str, float], found: dict[str, _WordMatches]) -> dict[int, float]:
    scores: dict[int, float] = {}
    have = scores.get
    for word, weight in wanted.items():
        for tool, score in found[word].tools.items():
            scores[tool] = have(tool, 0.0) + weight * score
    return scores


def _server_coverage(query: Query, corpus: Corpus, found: dict[str, _WordMatches]) -> dict[int, float]:
    cover: dict[int, float] = {}
    for word, weight in query.words.items():
        for server, score in found[word].servers.items():
            cover[server] = cover.get(server, 0.0) + weight * score
    for server in cover:
        cover[server] /= math.sqrt(corpus.sizes[server])
    widest = max(cover.values(), default=0.0)
    return {server: share / widest for server, share in cover.items()} if widest else {}


def _rarity(column: Column, corpus: Corpus) -> float:
    """Returns the mean rarity of a word among tools and among servers (BM25's inverse document frequency)."""
    among_tools = _inverse_frequency(len(column.tools), corpus.tools)
    return (among_tools + _inverse_frequency(len(column.servers), len(corpus.sizes))) / 2


def _inverse_frequency(having: int, every: int) -> float:
    return math.log(1 + (every - having + 0.5) / (having + 0.5))
