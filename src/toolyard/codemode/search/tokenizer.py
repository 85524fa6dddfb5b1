"""Splits text into search terms: identifiers are split, words are stemmed, stopwords are dropped.

Scripts without spaces (Chinese, Japanese, Thai, ...) are split into pairs of characters, which match without a
dictionary. The word lists are plain files beside this one that anybody can correct: `stopwords.txt`, and
`synonyms.txt`, in which each line is a group of interchangeable words.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from importlib.resources import files

from toolyard.codemode.search.stemmer import stem

_COMMENT = "#"
_LONGEST_WORD = 40
"""Longer words are keys, hashes or noise: their beginning is enough."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
"""Splits `createPullRequest`, `create_pull_request` and `HTTPServer2` at their word boundaries."""
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_MARKS = re.compile("[\u0300-\u036f]")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|[\n\u3002\uff01\uff1f]+")


def stemmed_words(text: str) -> list[str]:
    """Returns the stems of the meaningful words of `text`, in order."""
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
    """Returns the stopwords of `text` in lower case, in order."""
    found = (match.group().lower() for match in _WORD.finditer(text))
    return [word for word in found if word in stopwords()]


def split_sentences(text: str) -> list[str]:
    """Splits a text into sentences."""
    return [part for part in _SENTENCE_END.split(text) if part and not part.isspace()]


@cache
def synonyms_by_stem() -> dict[str, tuple[str, ...]]:
    """Returns the stems of the synonyms of each stem."""
    found: dict[str, dict[str, None]] = {}
    for line in synonym_groups():
        group = list(dict.fromkeys(stemmed_words(line)))
        for word in group:
            found.setdefault(word, {}).update((other, None) for other in group if other != word)
    return {word: tuple(others) for word, others in found.items()}


def _strip_accents(text: str) -> str:
    """Converts `café` to `cafe`. Composed characters such as Korean syllables stay composed."""
    return unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFKD", text)))


def _bigrams(run: str) -> list[str]:
    return [run] if len(run) == 1 else [run[at : at + 2] for at in range(len(run) - 1)]


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
