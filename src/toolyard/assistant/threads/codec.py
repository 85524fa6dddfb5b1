"""Turns and summaries as bytes, the same in every store.

A turn is a line of JSON, which says how long the two texts are, and then the texts, as they are. So a text of many
megabytes is never escaped, and one that is no valid Unicode (a name of a file, half an emoji) comes back as it was.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar, cast

from toolyard.assistant.threads.thread import FileSeen, Message, Summary, Turn

_PIECE = 500_000
"""At a time: other threads go on in between."""
_LAST_MOMENT = 253_402_300_799.0
"""Of the year 9999: what is later is no date."""
_ROLES = ("user", "assistant")
_KIND_OF_BYTE, _GOES_ON, _MOST_THAT_GO_ON = 0b1100_0000, 0b1000_0000, 3


_T = TypeVar("_T")


class DamagedError(Exception):
    """What is kept is not what a store has written."""


def turn_bytes(turn: Turn) -> bytes:
    texts = [_encoded(message.text) for message in (turn.asked, turn.answered)]
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
    return b"".join((_encoded(json.dumps(heads, ensure_ascii=False)), b"\n", *texts))


def turn_of(data: bytes) -> Turn:
    """Raises DamagedError."""
    try:
        texts = memoryview(data)
        end = data.index(b"\n") + 1
        asked, answered = json.loads(data[:end])
        middle = end + _count(asked["bytes"])
        if middle + _count(answered["bytes"]) != len(data):
            raise DamagedError("a turn was cut")
        return Turn(_message(asked, texts[end:middle]), _message(answered, texts[middle:]))
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"a turn cannot be read ({error})") from error
    except RecursionError as error:
        raise DamagedError("a turn cannot be read (it is nested too deeply)") from error


def _message(head: dict[str, Any], text: memoryview) -> Message:
    if head["role"] not in _ROLES:
        raise ValueError("somebody else has said something")
    return Message(
        role=head["role"],
        text=_decoded(text),
        tool=_is(str, head["tool"]),
        model=_is(str, head["model"]),
        at=_moment(head["at"]),
        files=tuple(FileSeen(_is(str, path), _is(str, digest)) for path, digest in _list(head["files"])),
        tokens=_count(head["tokens"]),
    )


def _is(kind: type[_T], value: object) -> _T:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{type(value).__name__} where {kind.__name__} should be")
    return value


def _list(value: object) -> list[Any]:
    return cast("list[Any]", _is(list, value))


def _count(value: object) -> int:
    number = _is(int, value)
    if number < 0:
        raise ValueError("a number below 0")
    return number


def _moment(value: object) -> float:
    seconds = value if isinstance(value, int) else _is(float, value)
    if not 0 <= seconds <= _LAST_MOMENT:
        raise ValueError("a time that is none")
    return float(seconds)


def summary_bytes(summary: Summary) -> bytes:
    """What a store does not keep in fields of its own."""
    return _encoded(json.dumps([summary.title, summary.tools], ensure_ascii=False))


def summary_of(data: bytes, *, thread: str, created: float, updated: float, turns: int) -> Summary:
    """Raises DamagedError."""
    try:
        title, tools = json.loads(data)
        names = tuple(_is(str, tool) for tool in _list(tools))
        return Summary(thread, _moment(created), _moment(updated), _count(turns), _is(str, title), names)
    except (ValueError, TypeError) as error:
        raise DamagedError(f"a summary cannot be read ({error})") from error
    except RecursionError as error:
        raise DamagedError("a summary cannot be read (it is nested too deeply)") from error


def _encoded(text: str) -> bytes:
    pieces = range(0, len(text), _PIECE)
    return b"".join(text[begin : begin + _PIECE].encode("utf-8", "surrogatepass") for begin in pieces)


def _decoded(data: memoryview) -> str:
    pieces: list[str] = []
    begin = 0
    while begin < len(data):
        end = min(begin + _PIECE, len(data))
        for _ in range(_MOST_THAT_GO_ON):  # a character is not cut in two; what has more of these is none
            if end < len(data) and data[end] & _KIND_OF_BYTE == _GOES_ON:
                end -= 1
        pieces.append(str(data[begin:end], "utf-8", "surrogatepass"))
        begin = end
    return "".join(pieces)
