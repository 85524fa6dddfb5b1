"""Splits text into the word pieces of the embedding model: BERT's uncased vocabulary, longest match first.

`wordpieces.txt.xz` is that vocabulary (Google's BERT base, Apache-2.0). It is read here because a tokenizer library
would install a model hub client as well.
"""

from __future__ import annotations

import lzma
import re
import unicodedata
from functools import cache
from importlib.resources import files

_START, _END, _UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
_LONGEST_WORD = 100
_TOKEN = re.compile(
    "[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f]|[^\\w\\s]|_|[^\\W_\u3400-\u9fff\uf900-\ufaff]+"
)
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffd\ud800-\udfff\u200b-\u200f\u202a-\u202e\ufeff]")


def wordpiece_ids(text: str, max_pieces: int) -> list[int]:
    """Returns the ids of at most `max_pieces` pieces of `text`, including the start and end marks."""
    known = _vocabulary()
    numbers = [known[_START]]
    plain = unicodedata.normalize("NFD", _CONTROL.sub("", text).lower())
    plain = "".join(sign for sign in plain if unicodedata.category(sign) != "Mn") if not plain.isascii() else plain
    for match in _TOKEN.finditer(plain):
        numbers.extend(_word_ids(match.group(), known))
        if len(numbers) >= max_pieces - 1:
            break
    return [*numbers[: max_pieces - 1], known[_END]]


def _word_ids(word: str, known: dict[str, int]) -> list[int]:
    if len(word) > _LONGEST_WORD:
        return [known[_UNKNOWN]]
    found: list[int] = []
    at = 0
    while at < len(word):
        for end in range(len(word), at, -1):
            number = known.get(word[at:end] if at == 0 else f"##{word[at:end]}")
            if number is not None:
                found.append(number)
                at = end
                break
        else:
            return [known[_UNKNOWN]]
    return found


@cache
def _vocabulary() -> dict[str, int]:
    packed = files("toolyard.codemode.search").joinpath("wordpieces.txt.xz").read_bytes()
    return {piece: number for number, piece in enumerate(lzma.decompress(packed).decode("utf-8").split("\n"))}
