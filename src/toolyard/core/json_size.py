"""What a long JSON text holds, told without reading it: a few bytes of it can become many objects. Pure.

A parser holds the interpreter's lock until it is done, in whatever thread it runs. So what would keep everybody
waiting is told apart before.
"""

from __future__ import annotations

import json
import re

from toolyard.core.limits import MIB

MAX_JSON_PARTS = 1_000_000
"""Of one message: reading so many takes some tenths of a second."""
PART_BYTES = 100
"""What one part costs in memory, roughly; in the text it may be two bytes."""

_CHUNK_BYTES = 1 * MIB
_STRUCTURAL_BYTES = b"{[,"
_MAX_QUOTES_PER_PART = 4
"""A part brings one value at most, and a name to it."""
_ID_SEARCH_BYTES = 200
_JSONRPC_VERSION = rb'"jsonrpc"\s*:\s*"[0-9.]{1,9}"'
_LEADING_ID = re.compile(rb"\s*\{\s*(?:" + _JSONRPC_VERSION + rb'\s*,\s*)?"id"\s*:\s*([0-9]{1,18})\s*,')
_TRAILING_ID = re.compile(rb'"id"\s*:\s*([0-9]{1,18})\s*(?:,\s*' + _JSONRPC_VERSION + rb"\s*)?\}\s*\Z")


def count_json_parts(body: bytes, limit: int = MAX_JSON_PARTS) -> int:
    """How many `{`, `[` and `,` stand outside of strings. Looks no further once there are more than `limit`."""
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
        if quotes > _MAX_QUOTES_PER_PART * (limit + 1):  # so many strings need more parts, or it is no JSON
            return limit + 1
        if total > limit:
            break
        is_inside ^= len(between_quotes) % 2 == 0
    return total


def peek_message_id(body: bytes) -> int | None:
    """The `id` of a message that is not read, where it stands first or last in it."""
    found = _LEADING_ID.match(body, 0, _ID_SEARCH_BYTES) or _TRAILING_ID.search(
        body, max(len(body) - _ID_SEARCH_BYTES, 0)
    )
    return int(found[1]) if found else None


class RepeatedKeyError(ValueError):
    """A key stands twice in one object: readers differ in which of the two counts."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def loads_unique(text: str | bytes) -> object:
    """Parse JSON. Raises RepeatedKeyError, or what `json.loads` raises."""
    return json.loads(text, object_pairs_hook=_unique_object)


def find_repeated_key(body: bytes) -> str | None:
    """A key that stands twice in one object of a JSON text. None also where the text is no JSON or too deep."""
    try:
        # Numbers are not needed, and converting a long one is refused.
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
