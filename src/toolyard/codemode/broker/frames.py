"""Frames on the broker's socket: a length of four bytes, the lowest first, then that much JSON in UTF-8."""

from __future__ import annotations

import json
import struct
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from toolyard.codemode.broker.requests import BrokenFrame, Kind, Refused
from toolyard.core.limits import MIB

LENGTH = struct.Struct("<I")


def parsed(body: bytes | bytearray) -> Any:
    try:
        return from_json(body)
    except ValueError as error:
        raise BrokenFrame(f"a frame is no JSON: {error}") from None


def framed(message: dict[str, Any], most: int) -> bytes:
    """Raises Refused for what does not fit in a frame, or is nothing that JSON can hold."""
    try:
        body = to_json(message, inf_nan_mode="constants")
    except PydanticSerializationError:
        body = _plainly(message)
    if len(body) > most:
        size = f"{len(body) / MIB:.1f} MiB, and at most {most / MIB:g} MiB can be handed over"
        raise Refused(Kind.SYSTEM, f"The answer has {size}. Ask for a part of it, or for a file.")
    return LENGTH.pack(len(body)) + body


def _plainly(message: dict[str, Any]) -> bytes:
    """For text with halves of characters in it, which only an escape can carry."""
    try:
        return json.dumps(message, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused(Kind.SYSTEM, f"The answer cannot be handed over: {error}.") from None
