"""Encodes the answer of Python code as JSON, without `json`, which imports `re` at every cold start."""

from __future__ import annotations

from _json import encode_basestring_ascii

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Value = None | bool | int | str | Sequence["Value"] | Mapping[str, "Value"]


def encode_json(value: Value) -> str:
    """Returns the value as JSON text. Raises TypeError for values that JSON does not have."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true" if value else "false"
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, dict):
        return f"{{{','.join(f'{encode_basestring_ascii(key)}:{encode_json(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(encode_json, value))}]"
    raise TypeError(f"an answer holds no {type(value).__name__}")
