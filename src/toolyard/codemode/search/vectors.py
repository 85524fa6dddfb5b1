"""Vectors of tools: computed once per text, stored with the tool, compared with those of a query.

A stored vector begins with a hash of its text, so that only changed tools of a server are computed again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

from toolyard.codemode.search import embedding
from toolyard.codemode.search.hybrid_ranking import SemanticNearness
from toolyard.codemode.search.tokenizer import split_sentences

_HASH_BYTES = 8
_MAX_SENTENCES = 4
"""Each costs a vector. The topic of a request is stated early; more sentences did not improve results."""
_FEWEST_WORDS = 3
_SENTENCE_WEIGHT = 0.7
"""Weight of the nearest sentence of a long query; its beginning as a whole has the rest."""
_UNRELATED_COSINE = 0.1
"""The approximate cosine of unrelated texts."""
_MEDIAN_HALF_WEIGHT_COUNT = 10
"""With this many texts, their own median has half the weight."""
_MIN_NEARNESS = 0.1
"""If no text exceeds this, none is near: the nearest has less than 1."""

StoredVectors = Sequence[tuple[int, bytes]]
"""Vectors by key, as stored."""


def build_vectors(texts: Sequence[str], before: Iterable[bytes]) -> list[bytes]:
    """Returns the vectors of the texts. Vectors in `before` are reused."""
    known = {vector[:_HASH_BYTES]: vector for vector in before}
    hashes = [_hash(text) for text in texts]
    missing = {digest: text for digest, text in zip(hashes, texts, strict=True) if digest not in known}
    if missing:
        fresh = embedding.pack_vectors(embedding.embed_texts(list(missing.values())))
        known |= {digest: digest + vector for digest, vector in zip(missing, fresh, strict=True)}
    return [known[digest] for digest in hashes]


class VectorIndex:
    """All vectors of an index, in memory: 1.5 kB per tool."""

    def __init__(self, tools: StoredVectors, servers: StoredVectors) -> None:
        numpy: Any = import_module("numpy")
        self._keys: Any = numpy.array([key for key, _ in tools], numpy.int64)
        self._servers = [key for key, _ in servers]
        self._of_tools, self._of_servers = map(_matrix, (tools, servers))

    def nearness_to(self, query: str) -> SemanticNearness:
        """Returns the similarity of all tools and servers to a query."""
        parts = [part for part in split_sentences(query) if len(part.split()) >= _FEWEST_WORDS][:_MAX_SENTENCES]
        rows = embedding.embed_texts([query, *(parts if len(parts) > 1 else ())])
        servers = _relative_nearness(self._of_servers, rows).tolist()
        return SemanticNearness(
            self._keys, _relative_nearness(self._of_tools, rows), dict(zip(self._servers, servers, strict=True))
        )


def _matrix(stored: StoredVectors) -> Any:
    return embedding.unpack_vectors(vector[_HASH_BYTES:] for _, vector in stored)


def _relative_nearness(matrix: Any, query: Any) -> Any:
    """Returns how much nearer than the baseline each row is to a query; the nearest has 1.

    `query` has a row for the whole and one for each sentence. The baseline differs between them, because small talk
    is slightly similar to everything, so each is compared with its own median.
    """
    numpy: Any = import_module("numpy")
    if not len(matrix):
        return numpy.zeros(0)
    cosines = query @ matrix.T
    cosines -= _baseline(cosines)
    near = cosines[0]
    if len(query) > 1:
        near = (1 - _SENTENCE_WEIGHT) * near + _SENTENCE_WEIGHT * cosines[1:].max(0)
        near -= numpy.median(near) * _median_weight(len(matrix))
    return numpy.maximum(near, 0) / max(float(near.max()), _MIN_NEARNESS)


def _baseline(cosines: Any) -> Any:
    """Returns the median of each row, combined with the typical value for unrelated texts if there are few rows."""
    numpy: Any = import_module("numpy")
    trust = _median_weight(cosines.shape[1])
    return trust * numpy.median(cosines, 1, keepdims=True) + (1 - trust) * _UNRELATED_COSINE


def _median_weight(count: int) -> float:
    return count / (count + _MEDIAN_HALF_WEIGHT_COUNT)


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=_HASH_BYTES).digest()
