"""Vectors of tools: made once for each text, kept with the tool, compared with those of a query.

A stored vector begins with a hash of its text, so that a changed server costs only its changed tools.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

from toolyard.codemode.search import embedding
from toolyard.codemode.search.words import sentences

_HASH_BYTES = 8
_MOST_SENTENCES = 16
_FEWEST_WORDS = 3
_SENTENCE = 0.7
"""What the nearest sentence of a long query counts, its beginning as a whole counting the rest."""


def made(texts: Sequence[str], before: Iterable[bytes]) -> list[bytes]:
    """The vectors of the texts; those that are there already are not made again."""
    known = {vector[:_HASH_BYTES]: vector for vector in before}
    hashes = [_hash(text) for text in texts]
    missing = {digest: text for digest, text in zip(hashes, texts, strict=True) if digest not in known}
    if missing:
        fresh = embedding.packed(embedding.embed(list(missing.values())))
        known |= {digest: digest + vector for digest, vector in zip(missing, fresh, strict=True)}
    return [known[digest] for digest in hashes]


class Vectors:
    """All vectors of an index, in memory: 1.5 kB a tool."""

    def __init__(self, stored: Sequence[tuple[int, bytes]]) -> None:
        self._keys = [key for key, _ in stored]
        self._matrix: Any = embedding.unpacked(vector[_HASH_BYTES:] for _, vector in stored)

    def near(self, query: str) -> dict[int, float]:
        """How near each tool is to the query, by its key; the nearest has 1."""
        parts = [part for part in sentences(query) if len(part.split()) >= _FEWEST_WORDS][:_MOST_SENTENCES]
        rows = embedding.embed([query, *(parts if len(parts) > 1 else ())])
        cosines = self._matrix @ rows.T
        near = cosines[:, 0]
        if len(parts) > 1:
            near = (1 - _SENTENCE) * near + _SENTENCE * cosines[:, 1:].max(1)
        numpy: Any = import_module("numpy")
        nearest = float(near.max())
        if nearest <= 0:
            return {}
        return dict(zip(self._keys, (numpy.maximum(near, 0) / nearest).tolist(), strict=True))


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=_HASH_BYTES).digest()
