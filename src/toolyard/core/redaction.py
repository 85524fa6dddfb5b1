"""Removes keys and passwords from text of others, such as error messages of providers.

Providers repeat the key that they were sent, completely or in part, and in their own format: percent-encoded, or with
JSON escapes. A line that contains a secret only after decoding is shown decoded, with the secret masked.
"""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, count, takewhile
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

MASK: Final = "***"
_MIN_SECRET_CHARS: Final = 8
"""Shorter values protect nothing, and would match ordinary words."""
_MIN_MATCH_BYTES: Final = 12
"""This many consecutive characters of a longer secret count as the secret. The last four, which providers like to
show, do not.
"""
_WORD_BYTES: Final = 4
"""Every match, and the shortest secret, contains an aligned word of the text, or every second one."""
_BATCH_SIZE: Final = 64 * 1024
"""Characters or words that are processed before other threads get a turn."""
_JSON_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\([\"\\/])")
_SHORT_ESCAPED: Final = '"\\/'
"""Characters with a shorter JSON escape: most secrets contain none, and most texts have many such escapes."""


def _unescape_json(text: str) -> str:
    return _JSON_ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2], text)


@dataclass(frozen=True, slots=True)
class _Escape:
    prefix: str
    """The text an escape starts with."""
    pattern: re.Pattern[str]
    decode: Callable[[str], str]

    def find_next(self, text: str, start: int) -> int:
        """Returns the position of the next escape, or -1. Searching with the pattern alone would block other threads
        longer.
        """
        at = text.find(self.prefix, start)
        while at >= 0 and not self.pattern.match(text, at):
            at = text.find(self.prefix, at + 1)
        return at


_PERCENT: Final = _Escape("%", re.compile(r"%[0-9a-fA-F]{2}"), unquote)
_JSON: Final = _Escape("\\u", _JSON_ESCAPE, _unescape_json)
_ANY_JSON: Final = _Escape("\\", _JSON_ESCAPE, _unescape_json)


def collect_secrets(*addresses: str, key: str = "") -> tuple[str, ...]:
    """Returns the secrets in a key and in addresses, which may contain user names, passwords and keys."""
    found = [key]
    for address in addresses:
        parts = urlsplit(address)
        who = parts.netloc.rpartition("@")[0]
        plain = unquote(who)
        found += [who, plain, unquote(who.partition(":")[2])]
        if len(plain) >= _MIN_SECRET_CHARS:
            found.append(base64.b64encode(plain.encode()).decode())
        found += [value for _, value in parse_qsl(parts.query)]
    return tuple(dict.fromkeys(secret for secret in found if len(secret) >= _MIN_SECRET_CHARS))


def mask_secrets(text: str, secrets: tuple[str, ...]) -> str:
    """Replaces every secret in `text` by `***`. Fast also for megabytes of text without secrets."""
    if not secrets:
        return text
    text = _mask_plain_text(text, secrets)
    is_quoted = any(sign in secret for secret in secrets for sign in _SHORT_ESCAPED)
    for escape in (_PERCENT, _ANY_JSON if is_quoted else _JSON):
        text = "".join(_mask_escaped_lines(text, secrets, escape))
    return text


def _mask_escaped_lines(text: str, secrets: tuple[str, ...], escape: _Escape) -> Iterator[str]:
    """Yields the text in parts. Lines with escapes are decoded if they then contain a secret."""
    done = 0
    while (found := escape.find_next(text, done)) >= 0:
        start = text.rfind("\n", done, found) + 1 or done
        end = text.find("\n", found)
        end = len(text) if end < 0 else end
        plain = escape.decode(text[start:end])
        without = _mask_plain_text(plain, secrets)
        yield text[done:start]
        yield text[start:end] if without == plain else without
        done = end
    yield text[done:]


def _mask_plain_text(text: str, secrets: tuple[str, ...]) -> str:
    pieces = (text[at : at + _BATCH_SIZE] for at in range(0, len(text), _BATCH_SIZE))
    data = b"".join(piece.encode("utf-8", "surrogatepass") for piece in pieces)
    parts: list[bytes] = []
    done = 0
    for start, stop in _secret_spans(data, secrets):
        parts += (data[done:start], MASK.encode())
        done = stop
    return b"".join((*parts, data[done:])).decode("utf-8", "replace") if parts else text


def _secret_spans(data: bytes, secrets: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Yields the spans of secrets: a matching piece, extended as long as it continues like the secret.

    Only every second word or so is compared, because no piece is short enough to lie between two. That keeps the
    search fast for any number of secrets.
    """
    look = _word_table(secrets)
    words = memoryview(data + bytes(-len(data) % _WORD_BYTES)).cast("I")[:: look.step // _WORD_BYTES]
    end = 0
    for at in (look.step * number for number in _matching_word_indexes(words, look)):
        for secret, offset in look.occurrences[words[at // look.step]] if at >= end else ():
            before = _common_prefix_length(data[max(at - offset, end) : at][::-1], secret[:offset][::-1])
            after = _common_prefix_length(data[at : at + len(secret) - offset], secret[offset:])
            if before + after >= min(len(secret), _MIN_MATCH_BYTES):
                end = at + after
                yield at - before, end
                break


def _matching_word_indexes(words: memoryview[int], look: _WordTable) -> Iterator[int]:
    """Yields the indexes of the words that occur in some secret."""
    for first in range(0, len(words), _BATCH_SIZE):
        yield from compress(count(first), map(look.occurrences.__contains__, words[first : first + _BATCH_SIZE]))


@dataclass(frozen=True, slots=True)
class _WordTable:
    """The aligned words of all secrets, for lookup."""

    occurrences: Mapping[int, Sequence[tuple[bytes, int]]]
    """The secrets that contain a word, and where."""
    step: int
    """Bytes from one compared word to the next."""


@lru_cache(maxsize=64)
def _word_table(secrets: tuple[str, ...]) -> _WordTable:
    places: dict[int, list[tuple[bytes, int]]] = {}
    spelled = [secret.encode("utf-8", "surrogatepass") for secret in secrets]
    for secret in spelled:
        for offset in range(len(secret) - _WORD_BYTES + 1):
            word = int.from_bytes(secret[offset : offset + _WORD_BYTES], sys.byteorder)
            places.setdefault(word, []).append((secret, offset))
    is_short = any(len(secret) < _MIN_MATCH_BYTES for secret in spelled)
    return _WordTable(places, _WORD_BYTES if is_short else 2 * _WORD_BYTES)


def _common_prefix_length(one: bytes, other: bytes) -> int:
    """Returns the number of equal leading bytes."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
