"""Bytes of a client's files as text, and text that a client pushed as bytes.

Names of encodings come from clients. Only those that Python knows are looked up, since it remembers every other name
for ever, and only those that files are written in: what turns text into other text, or bytes into other bytes, is as
unknown as a name that was made up.
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
        *("raw_unicode_escape", "unicode_escape", "utf_7"),  # can say halves of characters
    }
)


def decode_content(content: bytes, wanted: str | None, recorded: str) -> tuple[str, str]:
    """The text of a file, and the encoding that it was read with, as it was named.

    The `wanted` encoding is tried first, then the `recorded` one. Where neither gives the text, it is guessed, and
    stray bytes become U+FFFD: the text can always be sent. A byte order mark of UTF-8 is no part of it. Raises
    ValidationError where nobody knows what is wanted; a recorded name that nobody knows is passed over.
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
    """What a pushed text is as bytes, and the encoding that they are in: UTF-8 where that one cannot say it.

    Halves of characters, which no file can hold, become U+FFFD. Raises ValidationError for an unknown encoding.
    """
    codec = _require_codec(encoding)
    try:
        data = text.encode(codec)
        # Some take characters for commands of their own, and would give back another text.
        if data.decode(codec) == text:
            return data, encoding
    except UnicodeError:
        pass
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode(_UTF8), _UTF8


def from_base64(text: str) -> bytes:
    """Raises ValidationError for anything but standard base64 as it is written: padded, in one line."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = None
    # A second way to spell the same bytes is a mistake at the least.
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
    """What Python calls it; None where files are not written in such a thing."""
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
