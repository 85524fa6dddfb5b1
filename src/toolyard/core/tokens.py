"""What a text costs a model's context, in tokens of o200k, offline.

`count_tokens` counts with the real tokenizer: its vocabulary takes a tenth of a second to load and tens of megabytes
to hold, so it is for reports. `estimate_tokens` needs neither and errs on the high side: it is for budgets.
"""

from __future__ import annotations

import math
import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from toolyard.core.errors import SystemFault

ENCODINGS = ("o200k_base", "cl100k_base")
_PIECES = re.compile(r"[A-Za-z]+|\d+|\s+|[^\w\s]+|[^\x00-\x7f]+|_+")


def count_tokens(text: str, encoding: str = "o200k_base") -> int:
    """The exact number, by the encoding of current models."""
    # Half a surrogate pair is no text; a tokenizer sees the sign that stands for it.
    return int(_tokenizer(encoding).count(text.encode("utf-8", "replace").decode("utf-8")))


def can_count() -> bool:
    """Whether the tokenizer is installed (the extra `tokens`)."""
    return find_spec("rs_bpe") is not None


def count_or_estimate(text: str) -> int:
    """The exact number where it can be had, else an estimate on the high side."""
    return count_tokens(text) if can_count() else estimate_tokens(text)


def estimate_tokens(text: str) -> int:
    return max(bool(text), math.ceil(sum(_worth(piece) for piece in _PIECES.findall(text))))


def _worth(piece: str) -> float:
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


@cache
def _tokenizer(encoding: str) -> Any:
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
