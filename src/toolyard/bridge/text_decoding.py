"""Decodes the bytes of a client's files to text, and encodes text that a client pushed.

Encoding names come from clients. Only names of codecs that Python has are looked up, because Python caches every
failed lookup for ever, and only codecs that files are written in: codecs between text and text or bytes and bytes
count as unknown.
"""

from __future__ import annotations

import base64
import binascii
import encodings
import functools
import pkgutil
import re
from encodings.aliases import aliases
from typing import Final

from toolyard.core.errors import ValidationError
from toolyard.files.content.text import decode

_SHOWN_CHARS = 40
_NAME = re.compile(r"[A-Za-z0-9._:-]{1,40}")
_UTF8: Final = "utf-8"
_NON_FILE_CODECS = frozenset(
    {
        *("base64_codec", "bz2_codec", "hex_codec", "quopri_codec", "rot_13", "uu_codec", "zlib_codec"),
        *("aliases", "charmap", "idna", "mbcs", "oem", "punycode", "undefined"),
        *("raw_unicode_escape", "unicode_escape", "utf_7"),  # can encode lone surrogates
    }
)


def decode_content(content: bytes, wanted: str | None, recorded: str) -> tuple[str, str]:
    """Returns the text of a file and the name of the encoding that was used.

    The `wanted` encoding is tried first, then the `recorded` one. If neither works, the encoding is guessed, and
    invalid bytes become U+FFFD, so that the text can always be sent. A UTF-8 byte order mark is removed. Raises
    ValidationError if the `wanted` encoding is unknown; an unknown `recorded` one is ignored.
    """
    if wanted is not None:
        _require_codec(wanted)
    for encoding in (wanted, recorded):
        if encoding is not None and (codec := _codec_name(encoding)) is not None:
            text = _try_decode(content, codec)
            if text is not None:
                return text, encoding
    guessed = decode(content)
    return guessed.printable, guessed.encoding


def encode_content(text: str, encoding: str) -> tuple[bytes, str]:
    """Returns a pushed text as bytes and their encoding, which is UTF-8 if the named one cannot encode the text.

    Lone surrogates, which no file can contain, become U+FFFD. Raises ValidationError for an unknown encoding.
    """
    codec = _require_codec(encoding)
    try:
        data = text.encode(codec)
        # Some codecs interpret characters as escape sequences and would not round-trip.
        if data.decode(codec) == text:
            return data, encoding
    except UnicodeError:
        pass
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode(_UTF8), _UTF8


def from_base64(text: str) -> bytes:
    """Decodes standard base64. Raises ValidationError unless it is padded and in one line."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = None
    # A non-canonical encoding of the same bytes is at least a mistake.
    if data is None or base64.b64encode(data) != text.encode("utf-8", "surrogatepass"):
        hint = "Send the standard alphabet with + and /, padded with =, without spaces or line ends."
        raise ValidationError.of("content", "is not base64", hint=hint)
    return data


def _require_codec(encoding: str) -> str:
    codec = _codec_name(encoding)
    if codec is None:
        shown = ascii(encoding[:_SHOWN_CHARS])
        hint = "Name a text encoding such as utf-8, utf-16, latin-1, cp1252 or shift_jis."
        raise ValidationError.of("encoding", f"{shown} is not a known text encoding", hint=hint)
    return codec


def _codec_name(encoding: str) -> str | None:
    """Returns Python's name of the encoding; None if it is unknown or not used for files."""
    if _NAME.fullmatch(encoding) is None:
        return None
    normal = encodings.normalize_encoding(encoding.lower()).replace(".", "_")
    module = aliases.get(normal, normal)
    return module if module in _text_codecs() else None


@functools.cache
def _text_codecs() -> frozenset[str]:
    return frozenset(each.name for each in pkgutil.iter_modules(encodings.__path__)) - _NON_FILE_CODECS


def _try_decode(content: bytes, codec: str) -> str | None:
    try:
        return content.decode("utf-8-sig" if codec == "utf_8" else codec)
    except UnicodeError:
        return None
