"""Frames on the broker's socket: a length of four bytes (little-endian), then that many bytes of JSON in UTF-8."""

from __future__ import annotations

import json
import struct
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from toolyard.codemode.broker.requests import FailureKind, InvalidFrame, RequestRefused
from toolyard.core.limits import MIB

LENGTH_PREFIX = struct.Struct("<I")


def parse_frame(body: bytes | bytearray) -> Any:
    """Parses the body of a frame. Raises InvalidFrame."""
    try:
        return from_json(body)
    except ValueError as error:
        raise InvalidFrame(f"a frame is not valid JSON: {error}") from None


def encode_frame(message: dict[str, Any], max_bytes: int) -> bytes:
    """Encodes a frame. Raises RequestRefused if it is too long, or cannot be represented in JSON."""
    try:
        body = to_json(message, inf_nan_mode="constants")
    except PydanticSerializationError:
        body = _encode_with_escapes(message)
    if len(body) > max_bytes:
        size = f"{len(body) / MIB:.1f} MiB, and the limit is {max_bytes / MIB:g} MiB"
        raise RequestRefused(FailureKind.SYSTEM, f"The answer has {size}. Ask for a part of it, or for a file.")
    return LENGTH_PREFIX.pack(len(body)) + body


def _encode_with_escapes(message: dict[str, Any]) -> bytes:
    """Encodes text with lone surrogates, which only escapes can represent."""
    try:
        return json.dumps(message, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestRefused(FailureKind.SYSTEM, f"The answer cannot be encoded as JSON: {error}.") from None
