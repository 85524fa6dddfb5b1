"""Estimates the size of JSON messages before they are parsed. Pure.

A few bytes of JSON can become many objects, and a parser holds the interpreter lock until it is done, in whatever
thread it runs. Messages that would block all threads are therefore detected first.
"""

from __future__ import annotations

import json
import re

from toolyard.core.limits import MIB

MAX_JSON_PARTS = 1_000_000
"""Limit for one message: parsing this many parts takes some tenths of a second."""
PART_BYTES = 100
"""Approximate memory of one part; in the text it may take two bytes."""

_CHUNK_BYTES = 1 * MIB
_STRUCTURAL_BYTES = b"{[,"
_MAX_QUOTES_PER_PART = 4
"""A part has at most one value and one key, with two quotes each."""
_ID_SEARCH_BYTES = 200
_JSONRPC_VERSION = rb'"jsonrpc"\s*:\s*"[0-9.]{1,9}"'
_LEADING_ID = re.compile(rb"\s*\{\s*(?:" + _JSONRPC_VERSION + rb'\s*,\s*)?"id"\s*:\s*([0-9]{1,18})\s*,')
_TRAILING_ID = re.compile(rb'"id"\s*:\s*([0-9]{1,18})\s*(?:,\s*' + _JSONRPC_VERSION + rb"\s*)?\}\s*\Z")


def count_json_parts(body: bytes, limit: int = MAX_JSON_PARTS) -> int:
    """Counts the `{`, `[` and `,` outside of strings. Stops counting above `limit`."""
    total, quotes, is_inside, left = 0, 0, False, b""
    for at in range(0, len(body), _CHUNK_BYTES):
        piece = left + body[at : at + _CHUNK_BYTES]
        left = b""
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"")
            if piece.endswith(b"\\"):
                piece, left = piece[:-1], b"\\"
            piece = piece.replace(b'\\"', b"")
        between_quotes = piece.split(b'"')
        outside = b"".join(between_quotes[1 if is_inside else 0 :: 2])
        total += len(outside) - len(outside.translate(None, _STRUCTURAL_BYTES))
        quotes += len(between_quotes) - 1
        if quotes > _MAX_QUOTES_PER_PART * (limit + 1):  # this many strings need more parts, or the text is not JSON
            return limit + 1
        if total > limit:
            break
        is_inside ^= len(between_quotes) % 2 == 0
    return total


def peek_message_id(body: bytes) -> int | None:
    """Returns the `id` of a message without parsing it, if it is the first or the last key."""
    found = _LEADING_ID.match(body, 0, _ID_SEARCH_BYTES) or _TRAILING_ID.search(
        body, max(len(body) - _ID_SEARCH_BYTES, 0)
    )
    return int(found[1]) if found else None


class RepeatedKeyError(ValueError):
    """One object contains a key twice. Parsers differ in which value they keep."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def loads_unique(text: str | bytes) -> object:
    """Parses JSON. Raises RepeatedKeyError, or what `json.loads` raises."""
    return json.loads(text, object_pairs_hook=_unique_object)


def find_repeated_key(body: bytes) -> str | None:
    """Returns a key that occurs twice in one object. None also if the text is invalid or nested too deeply."""
    try:
        # The numbers are not needed, and Python refuses to convert very long ones.
        json.loads(body, object_pairs_hook=_unique_object, parse_int=len, parse_float=len)
    except RepeatedKeyError as error:
        return error.key
    except (ValueError, RecursionError):
        return None
    return None


def _unique_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise RepeatedKeyError(key)
            seen.add(key)
    return found
