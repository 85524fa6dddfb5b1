"""Images for models: recognised by their first bytes, measured from their headers, never decoded.

An image that a model's API refuses breaks the whole conversation, so truncated, damaged or too large images are
refused here, where the model can still react.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolyard.core.calls import Image
from toolyard.core.errors import ToolError
from toolyard.core.limits import MIB
from toolyard.files.content.file_type import PNG_SIGNATURE, media_type_of

if TYPE_CHECKING:
    from collections.abc import Callable

BASE64_BYTES = 5 * MIB
"""The largest image, as base64, that the common model APIs accept."""
IMAGE_BYTES = BASE64_BYTES // 4 * 3

# Start-of-frame markers carry the size; C4, C8 and CC in that range are tables.
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_BARE = frozenset({0x01, *range(0xD0, 0xD9)})
_JPEG_SCAN = 0xDA
_JPEG_END = b"\xff\xd9"


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """Type and size of an image."""

    media_type: str
    width: int
    height: int


def measure_image(data: bytes) -> ImageInfo:
    """Returns type and size of an image. Raises ToolError if it is not an image, or damaged."""
    media_type = media_type_of(data)
    if media_type is None:
        raise ToolError("This is not a PNG, JPEG, GIF or WebP image.", hint="Convert it to PNG to have it shown.")
    try:
        width, height = _MEASURES[media_type](data)
    except (IndexError, ValueError):
        width = height = 0
    if not (width and height):
        raise ToolError(
            f"The {media_type} image is damaged or cut short ({len(data)} bytes).",
            hint="Make or fetch the file again; it cannot be shown as it is.",
        )
    return ImageInfo(media_type, width, height)


def load_image(data: bytes) -> tuple[Image, ImageInfo]:
    """Returns an image to show, with its size. Raises ToolError if it is damaged or too large."""
    info = measure_image(data)
    if len(data) > IMAGE_BYTES:
        raise ToolError(
            f"The image is too large to be shown: {len(data)} bytes ({info.width}x{info.height}),"
            f" and the most is {IMAGE_BYTES}.",
            hint="Scale it down or save it as JPEG under another name, and read that.",
        )
    return Image(data, info.media_type), info


def _read_big_endian(data: bytes, start: int, size: int) -> int:
    field = data[start : start + size]
    if len(field) != size:
        raise ValueError(start)
    return int.from_bytes(field, "big")


def _read_little_endian(data: bytes, start: int, size: int) -> int:
    field = data[start : start + size]
    if len(field) != size:
        raise ValueError(start)
    return int.from_bytes(field, "little")


def _png(data: bytes) -> tuple[int, int]:
    if data[12:16] != b"IHDR" or zlib.crc32(data[12:29]) != _read_big_endian(data, 29, 4):
        raise ValueError("header")
    at = len(PNG_SIGNATURE)
    while data[at + 4 : at + 8] != b"IEND":
        at += _read_big_endian(data, at, 4) + 12
    _read_big_endian(data, at + 8, 4)  # the checksum that ends the file
    return _read_big_endian(data, 16, 4), _read_big_endian(data, 20, 4)


def _jpeg(data: bytes) -> tuple[int, int]:
    at, size = 2, (0, 0)
    while True:
        if data[at] != 0xFF:
            raise ValueError(at)
        while data[at] == 0xFF:
            at += 1
        marker = data[at]
        at += 1
        if marker in _JPEG_BARE:
            continue
        if marker in _JPEG_FRAMES:
            size = _read_big_endian(data, at + 5, 2), _read_big_endian(data, at + 3, 2)
        length = _read_big_endian(data, at, 2)
        if length < 2:
            raise ValueError(at)
        at += length
        if marker == _JPEG_SCAN:
            break
    if data.find(_JPEG_END, at) < 0:
        raise ValueError("no end")
    return size


def _gif(data: bytes) -> tuple[int, int]:
    # Frames are not walked: an image block followed by the trailer is enough evidence of a complete file.
    if data.find(b";", data.index(b",", 13)) < 0:
        raise ValueError("no trailer")
    return _read_little_endian(data, 6, 2), _read_little_endian(data, 8, 2)


def _webp(data: bytes) -> tuple[int, int]:
    if _read_little_endian(data, 4, 4) + 8 > len(data):
        raise ValueError("cut short")
    chunk = data[12:16]
    if chunk == b"VP8X":
        return _read_little_endian(data, 24, 3) + 1, _read_little_endian(data, 27, 3) + 1
    if chunk == b"VP8L" and data[20] == 0x2F:
        bits = _read_little_endian(data, 21, 4)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if chunk == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        return _read_little_endian(data, 26, 2) & 0x3FFF, _read_little_endian(data, 28, 2) & 0x3FFF
    raise ValueError("chunk")


_MEASURES: dict[str, Callable[[bytes], tuple[int, int]]] = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
}
