"""Text to the words it is found by: identifiers split, endings taken off, words that say nothing left out.

Scripts without spaces (Chinese, Japanese, Thai, ...) are cut into pairs of characters, which find each other without
a dictionary.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from toolyard.codemode.search.lexicon import stopwords, synonym_groups
from toolyard.codemode.search.stemmer import stem

_LONGEST_WORD = 40
"""Longer ones are keys, hashes or noise: their beginning is enough."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
"""`createPullRequest`, `create_pull_request` and `HTTPServer2` come apart where a reader would cut them."""
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_MARKS = re.compile("[\u0300-\u036f]")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|[\n\u3002\uff01\uff1f]+")


def stemmed_words(text: str) -> list[str]:
    """The stems of the words of `text` that mean something, in order."""
    if not text.isascii():
        text = _strip_accents(text)
    skipped = stopwords()
    found: list[str] = []
    for match in _WORD.finditer(text):
        word = match.group()
        if word.isascii():
            word = word.lower()
            if word not in skipped:
                found.append(stem(word[:_LONGEST_WORD]))
        elif _UNSPACED.search(word):
            found.extend(_bigrams(word))
        else:
            found.append(word.lower()[:_LONGEST_WORD])
    return found


def stopwords_in(text: str) -> list[str]:
    """The words of `text` that say nothing, in order, as they are written but for capitals."""
    found = (match.group().lower() for match in _WORD.finditer(text))
    return [word for word in found if word in stopwords()]


def split_sentences(text: str) -> list[str]:
    return [part for part in _SENTENCE_END.split(text) if part and not part.isspace()]


@cache
def synonyms_by_stem() -> dict[str, tuple[str, ...]]:
    """By the stem of a word: the stems that may stand in its place."""
    found: dict[str, dict[str, None]] = {}
    for line in synonym_groups():
        group = list(dict.fromkeys(stemmed_words(line)))
        for word in group:
            found.setdefault(word, {}).update((other, None) for other in group if other != word)
    return {word: tuple(others) for word, others in found.items()}


def _strip_accents(text: str) -> str:
    """`café` as `cafe`; what is put together from other parts, such as Korean syllables, stays together."""
    return unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFKD", text)))


def _bigrams(run: str) -> list[str]:
    return [run] if len(run) == 1 else [run[at : at + 2] for at in range(len(run) - 1)]
