"""What a text costs a model's context, in tokens of o200k, offline.

`count_tokens` counts with the real tokenizer: its vocabulary takes a tenth of a second to load and tens of megabytes
to hold, so it is for reports. `estimate_tokens` needs neither and errs on the high side: it is for budgets.
`count_tokens_in_pieces` is for texts of megabytes: the tokenizer lets no other thread run while it counts.
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
"""Counted within some milliseconds, whatever they are: a line of nothing but dashes takes the longest."""
_CHARACTER_RUN = re.compile(r"[A-Za-z]+|\d+|\s+|[^\w\s]+|[^\x00-\x7f]+|_+")


def count_tokens(text: str, encoding: str = "o200k_base") -> int:
    """The exact number, by the encoding of current models."""
    # Half a surrogate pair is no text; a tokenizer sees the sign that stands for it.
    return int(_tokenizer(encoding).count(text.encode("utf-8", "replace").decode("utf-8")))


def has_tokenizer() -> bool:
    """Whether the tokenizer is installed (the extra `tokens`)."""
    return find_spec("rs_bpe") is not None


def count_or_estimate_tokens(text: str) -> int:
    """The exact number where it can be had, else an estimate on the high side."""
    return count_tokens(text) if has_tokenizer() else estimate_tokens(text)


def count_tokens_in_pieces(text: str, on_piece: Callable[[], None] = lambda: None) -> int:
    """As `count_or_estimate_tokens`, a piece at a time, with other threads and `on_piece` having their turn after each.

    What a cut costs is a token or two, and lines that begin with a digit cost nothing: no token goes across.
    """
    total = 0
    for piece in split_at_lines(text):
        total += count_or_estimate_tokens(piece)
        on_piece()
    return total


def split_at_lines(text: str, max_chars: int = PIECE_CHARS) -> Iterator[str]:
    """`text` in parts of at most `max_chars` characters, each ending where a line does, if one ends in it."""
    start = 0
    while len(text) - start > max_chars:
        end = text.rfind("\n", start, start + max_chars) + 1 or start + max_chars
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def estimate_tokens(text: str) -> int:
    return max(bool(text), math.ceil(sum(_estimate_run(piece) for piece in _CHARACTER_RUN.findall(text))))


def _estimate_run(piece: str) -> float:
    """Tokens of a run of one kind of characters."""
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
    with _LOAD_LOCK:  # else several first calls load it, each
        return _load_tokenizer(encoding)


@cache
def _load_tokenizer(encoding: str) -> Any:
    if encoding not in ENCODINGS:
        raise ValueError(f"no tokenizer {encoding!r}; there are {', '.join(ENCODINGS)}")
    try:
        openai: Any = import_module("rs_bpe.bpe").openai
    except ImportError as error:
        raise SystemFault(
            "Tokens cannot be counted: the tokenizer is not installed.",
            hint="`pip install 'toolyard[tokens]'` brings it.",
        ) from error
    return getattr(openai, encoding)()


def token_counts_by_encoding(text: str) -> dict[str, int] | None:
    """The number of tokens by encoding; None when the tokenizer is not installed."""
    try:
        return {encoding: count_tokens(text, encoding) for encoding in ENCODINGS}
    except SystemFault:
        return None
