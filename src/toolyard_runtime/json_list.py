"""Files that hold a JSON list, read so strictly that nothing is lost when they are written again. Pure.

The host and the code in its sandbox write the same files, so both read them here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Unreadable(ValueError):  # noqa: N818 - a state of the file, told to its reader in words
    """Content that cannot be what the file is for. The text says why."""


def text_of(data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"is not UTF-8 text (byte {error.start})") from None
    if "\0" in text:
        raise Unreadable("holds NUL bytes, which no text does")
    return text


def parse_list(data: bytes) -> list[Any]:
    """A JSON list. What would be lost when it is written again (keys that appear twice, NaN) is refused."""
    import json

    text = text_of(data)
    if not text.strip():
        return []
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_finite, strict=False
        )
    except json.JSONDecodeError as error:
        raise Unreadable(f"is not JSON: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise Unreadable("is nested too deeply") from None
    except Unreadable:
        raise
    except ValueError as error:  # a number with thousands of digits
        raise Unreadable(f"cannot be read: {error}") from None
    if not isinstance(value, list):
        raise Unreadable("has to be a list, as in [ {…}, {…} ]")
    return value  # pyright: ignore[reportUnknownVariableType]


def write_list(entries: list[Any], _: bytes = b"") -> bytes:
    import json

    text = json.dumps(entries, ensure_ascii=False, indent=2) + "\n"
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair: only its escape can be written
        return (json.dumps(entries, indent=2) + "\n").encode()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise Unreadable("has a key that appears twice in one entry")
    return made


def _refuse_constant(name: str) -> Any:
    raise Unreadable(f"holds {name}, which is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in {float("inf"), float("-inf")}:
        raise Unreadable(f"holds a number that is too large: {text}")
    return number
