"""Detects what a file is from its bytes; the name only decides between text and notebook."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from enum import StrEnum

from toolyard.core.limits import KIB

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8\xff"
_GIFS = (b"GIF87a", b"GIF89a")
_SAMPLE_BYTES = 8 * KIB
_PDF_MARK_WITHIN = 1 * KIB
"""Readers accept a PDF whose header follows other bytes, within the first kilobyte."""
_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
# Tab, line feed, form feed, carriage return, backspace, escape and the DOS end-of-file mark occur in plain text.
_CONTROLS = bytes(b for b in (*range(32), 127) if b not in b"\b\t\n\f\r\x1a\x1b")
_CONTROL_SHARE_UTF8 = 0.30
_CONTROL_SHARE_OTHER = 0.05
_LONGEST_UTF8 = 4


class Category(StrEnum):
    """The types of files that are rendered differently."""

    TEXT = "text"
    IMAGE = "image"
    PDF = "pdf"
    NOTEBOOK = "notebook"
    BINARY = "binary"


@dataclass(frozen=True, slots=True)
class FileKind:
    """A category with its media type."""

    category: Category
    media_type: str


TEXT = FileKind(Category.TEXT, "text/plain")
PDF = FileKind(Category.PDF, "application/pdf")
NOTEBOOK = FileKind(Category.NOTEBOOK, "application/x-ipynb+json")
BINARY = FileKind(Category.BINARY, "application/octet-stream")


def media_type_of(data: bytes) -> str | None:
    """Returns the media type of an image that can be shown, or None."""
    if data.startswith(PNG_SIGNATURE):
        return "image/png"
    if data.startswith(_JPEG):
        return "image/jpeg"
    if data.startswith(_GIFS):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def sniff(data: bytes, name: str) -> FileKind:
    """Returns what `data` is. `name` is the file's name or path."""
    media_type = media_type_of(data)
    if media_type is not None:
        return FileKind(Category.IMAGE, media_type)
    # A later mark counts only with a matching name: a text may well mention "%PDF-".
    if data.startswith(b"%PDF-") or (name.lower().endswith(".pdf") and b"%PDF-" in data[:_PDF_MARK_WITHIN]):
        return PDF
    if _is_binary(data):
        return BINARY
    return NOTEBOOK if name.lower().endswith(".ipynb") else TEXT


def _is_binary(data: bytes) -> bool:
    sample = data[:_SAMPLE_BYTES]
    if not sample or sample.startswith(_MARKS):
        return False
    if b"\0" in sample:
        return True
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    if not controls:
        return False
    share = _CONTROL_SHARE_UTF8 if _is_utf8(sample) else _CONTROL_SHARE_OTHER
    return controls > len(sample) * share


def _is_utf8(sample: bytes) -> bool:
    try:
        sample.decode("utf-8")
    except UnicodeDecodeError as error:
        # A sample may end in the middle of a character.
        return error.start > len(sample) - _LONGEST_UTF8
    return True
