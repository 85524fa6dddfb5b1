"""Counts the tokens (o200k) of a text, offline.

`count_tokens` uses the real tokenizer, whose vocabulary takes a tenth of a second to load and tens of megabytes of
memory: for reports. `estimate_tokens` needs neither and errs on the high side: for budgets. `count_tokens_in_pieces`
is for megabytes of text: the tokenizer blocks all other threads while it counts.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from toolyard.core.errors import SystemFault
from toolyard.core.limits import KIB

_LOAD_LOCK = threading.Lock()
ENCODINGS = ("o200k_base", "cl100k_base")
PIECE_CHARS = 4 * KIB
"""Counted within some milliseconds for any content; a line of dashes takes longest."""
_CHARACTER_RUN = re.compile(r"[A-Za-z]+|\d+|\s+|[^\w\s]+|[^\x00-\x7f]+|_+")


def count_tokens(text: str, encoding: str = "o200k_base") -> int:
    """Returns the exact number of tokens, by the encoding of current models."""
    # A lone surrogate is not encodable; the tokenizer gets its replacement character.
    return int(_tokenizer(encoding).count(text.encode("utf-8", "replace").decode("utf-8")))


def has_tokenizer() -> bool:
    """Whether the tokenizer is installed (the extra `tokens`)."""
    return find_spec("rs_bpe") is not None


def count_or_estimate_tokens(text: str) -> int:
    """Returns the exact number if the tokenizer is installed, otherwise a high estimate."""
    return count_tokens(text) if has_tokenizer() else estimate_tokens(text)


def count_tokens_in_pieces(text: str, on_piece: Callable[[], None] = lambda: None) -> int:
    """Like `count_or_estimate_tokens`, piece by piece: other threads and `on_piece` run after each.

    A cut costs a token or two, or none where the next line starts with a digit, since no token spans that.
    """
    total = 0
    for piece in split_at_lines(text):
        total += count_or_estimate_tokens(piece)
        on_piece()
    return total


def split_at_lines(text: str, max_chars: int = PIECE_CHARS) -> Iterator[str]:
    """Splits `text` into parts of at most `max_chars` characters, at line ends where possible."""
    start = 0
    while len(text) - start > max_chars:
        end = text.rfind("\n", start, start + max_chars) + 1 or start + max_chars
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def estimate_tokens(text: str) -> int:
    """Returns an estimate on the high side, without the tokenizer."""
    return max(bool(text), math.ceil(sum(_estimate_run(piece) for piece in _CHARACTER_RUN.findall(text))))


def _estimate_run(piece: str) -> float:
    """Returns the estimated tokens of a run of one kind of characters."""
    first = piece[0]
    if not first.isascii():
        return 1.2 * len(piece) if piece < "\U00010000" else 3.0 * len(piece)
    if first.isspace():
        return 1.0 if "\n" in piece or len(piece) > 1 else 0.0
    if first.isdigit():
        return math.ceil(len(piece) / 3)
    if first.isalpha():
        return 1.0 if len(piece) <= 8 else len(piece) / 5
    return max(1.0, len(piece) / 2)


def _tokenizer(encoding: str) -> Any:
    with _LOAD_LOCK:  # otherwise concurrent first calls would each load it
        return _load_tokenizer(encoding)


@cache
def _load_tokenizer(encoding: str) -> Any:
    if encoding not in ENCODINGS:
        raise ValueError(f"unknown encoding {encoding!r}; expected one of {', '.join(ENCODINGS)}")
    try:
        openai: Any = import_module("rs_bpe.bpe").openai
    except ImportError as error:
        raise SystemFault(
            "Tokens cannot be counted: the tokenizer is not installed.",
            hint="`pip install 'toolyard[tokens]'` brings it.",
        ) from error
    return getattr(openai, encoding)()


def token_counts_by_encoding(text: str) -> dict[str, int] | None:
    """Returns the number of tokens by encoding, or None if the tokenizer is not installed."""
    try:
        return {encoding: count_tokens(text, encoding) for encoding in ENCODINGS}
    except SystemFault:
        return None
