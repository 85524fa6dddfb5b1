"""Reads files that contain a JSON list, so strictly that nothing is lost when they are written again. Pure.

The host and the code in its sandbox write the same files, so both use this module.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class UnreadableFile(ValueError):  # noqa: N818 - describes the state of the file
    """The file's content is not what it should be. The message says why."""


def decode_text(data: bytes) -> str:
    """Decodes UTF-8 text. Raises UnreadableFile for other content."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"is not UTF-8 text (byte {error.start})") from None
    if "\0" in text:
        raise UnreadableFile("contains NUL bytes, so it is not text")
    return text


def parse_list(data: bytes) -> list[Any]:
    """Parses a JSON list. Refuses what would be lost when it is written again (duplicate keys, NaN)."""
    import json

    text = decode_text(data)
    if not text.strip():
        return []
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique_object,
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
            strict=False,
        )
    except json.JSONDecodeError as error:
        raise UnreadableFile(f"is not JSON: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise UnreadableFile("is nested too deeply") from None
    except UnreadableFile:
        raise
    except ValueError as error:  # a number with thousands of digits
        raise UnreadableFile(f"cannot be read: {error}") from None
    if not isinstance(value, list):
        raise UnreadableFile("must be a list, as in [ {…}, {…} ]")
    return value  # pyright: ignore[reportUnknownVariableType]


def write_list(entries: list[Any], _: bytes = b"") -> bytes:
    """Encodes the entries as indented JSON."""
    import json

    text = json.dumps(entries, ensure_ascii=False, indent=2) + "\n"
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate: only its escape can be written
        return (json.dumps(entries, indent=2) + "\n").encode()


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise UnreadableFile("has a key that appears twice in one entry")
    return made


def _refuse_constant(name: str) -> Any:
    raise UnreadableFile(f"contains {name}, which is not JSON")


def _finite_float(text: str) -> float:
    number = float(text)
    if number in {float("inf"), float("-inf")}:
        raise UnreadableFile(f"contains a number that is too large: {text}")
    return number
