"""Encodes turns and summaries as bytes, identically for every store.

A turn is a line of JSON with the lengths of the two texts, followed by the texts themselves. So a text of many
megabytes is never escaped, and one that is not valid Unicode (a file name, half an emoji) is restored exactly.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar, cast

from toolyard.assistant.threads.thread import FileSeen, Message, ThreadSummary, Turn

_PIECE = 500_000
"""Characters or bytes converted at a time, so that other threads can run in between."""
_MAX_TIMESTAMP = 253_402_300_799.0
"""The end of the year 9999: later times are not valid dates."""
_ROLES = ("user", "assistant")
_BYTE_KIND_MASK, _CONTINUATION_BYTE, _MAX_CONTINUATION_BYTES = 0b1100_0000, 0b1000_0000, 3


_T = TypeVar("_T")


class DamagedError(Exception):
    """Stored data is not what a store writes."""


def encode_turn(turn: Turn) -> bytes:
    texts = [_encode_text(message.text) for message in (turn.asked, turn.answered)]
    heads = [
        {
            "role": message.role,
            "tool": message.tool,
            "model": message.model,
            "at": message.at,
            "files": [[file.path, file.digest] for file in message.files],
            "tokens": message.tokens,
            "bytes": len(text),
        }
        for message, text in zip((turn.asked, turn.answered), texts, strict=True)
    ]
    return b"".join((_encode_text(json.dumps(heads, ensure_ascii=False)), b"\n", *texts))


def decode_turn(data: bytes) -> Turn:
    """Decodes what `encode_turn` wrote. Raises DamagedError."""
    try:
        texts = memoryview(data)
        end = data.index(b"\n") + 1
        asked, answered = json.loads(data[:end])
        middle = end + _require_count(asked["bytes"])
        if middle + _require_count(answered["bytes"]) != len(data):
            raise DamagedError("a turn was cut")
        return Turn(_decode_message(asked, texts[end:middle]), _decode_message(answered, texts[middle:]))
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"a turn cannot be read ({error})") from error
    except RecursionError as error:
        raise DamagedError("a turn cannot be read (it is nested too deeply)") from error


def _decode_message(head: dict[str, Any], text: memoryview) -> Message:
    if head["role"] not in _ROLES:
        raise ValueError("the role is unknown")
    return Message(
        role=head["role"],
        text=_decode_text(text),
        tool=_require_type(str, head["tool"]),
        model=_require_type(str, head["model"]),
        at=_require_timestamp(head["at"]),
        files=tuple(
            FileSeen(_require_type(str, path), _require_type(str, digest))
            for path, digest in _require_list(head["files"])
        ),
        tokens=_require_count(head["tokens"]),
    )


def _require_type(kind: type[_T], value: object) -> _T:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{type(value).__name__} where {kind.__name__} should be")
    return value


def _require_list(value: object) -> list[Any]:
    return cast("list[Any]", _require_type(list, value))


def _require_count(value: object) -> int:
    number = _require_type(int, value)
    if number < 0:
        raise ValueError("a negative number")
    return number


def _require_timestamp(value: object) -> float:
    seconds = value if isinstance(value, int) else _require_type(float, value)
    if not 0 <= seconds <= _MAX_TIMESTAMP:
        raise ValueError("an invalid time")
    return float(seconds)


def encode_summary(summary: ThreadSummary) -> bytes:
    """Encodes the part of a summary that stores do not keep in fields of their own."""
    return _encode_text(json.dumps([summary.title, summary.tools], ensure_ascii=False))


def decode_summary(data: bytes, *, thread: str, created: float, updated: float, turns: int) -> ThreadSummary:
    """Decodes what `encode_summary` wrote. Raises DamagedError."""
    try:
        title, tools = json.loads(data)
        names = tuple(_require_type(str, tool) for tool in _require_list(tools))
        return ThreadSummary(
            thread,
            _require_timestamp(created),
            _require_timestamp(updated),
            _require_count(turns),
            _require_type(str, title),
            names,
        )
    except (ValueError, TypeError) as error:
        raise DamagedError(f"a summary cannot be read ({error})") from error
    except RecursionError as error:
        raise DamagedError("a summary cannot be read (it is nested too deeply)") from error


def _encode_text(text: str) -> bytes:
    pieces = range(0, len(text), _PIECE)
    return b"".join(text[begin : begin + _PIECE].encode("utf-8", "surrogatepass") for begin in pieces)


def _decode_text(data: memoryview) -> str:
    pieces: list[str] = []
    begin = 0
    while begin < len(data):
        end = min(begin + _PIECE, len(data))
        for _ in range(_MAX_CONTINUATION_BYTES):  # do not split a character; more continuation bytes are invalid
            if end < len(data) and data[end] & _BYTE_KIND_MASK == _CONTINUATION_BYTE:
                end -= 1
        pieces.append(str(data[begin:end], "utf-8", "surrogatepass"))
        begin = end
    return "".join(pieces)
