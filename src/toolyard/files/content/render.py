"""Renders a file's content for Read, whatever type of file it is.

`render` is a pure function of the bytes. Its result has the parts for a model and the same facts as plain values: the
text without line numbers, and which lines they are. A client that uses only those misses nothing but the images.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolyard.core.calls import Part, Text
from toolyard.core.errors import ToolError, ValidationError
from toolyard.core.limits import DEFAULT_LIMITS, Limits
from toolyard.files.content import images, notebooks, pdf
from toolyard.files.content.file_type import Category, FileKind, sniff
from toolyard.files.content.text import Newline, decode, text_page


@dataclass(frozen=True, slots=True)
class RenderedFile:
    """What Read shows. Lines are lines of a text, cells of a notebook or pages of a PDF; an image has none."""

    parts: tuple[Part, ...]
    kind: FileKind
    content: str
    """The content for programs: the unchanged lines of a text, cells, pages, or an image's description."""
    note: str = ""
    """What is missing and how to get it; empty if nothing is."""
    encoding: str | None = None
    newline: Newline | None = None
    first_line: int = 0
    line_count: int = 0
    total_lines: int = 0
    truncated: bool = False
    width: int | None = None
    height: int | None = None


def render(
    data: bytes,
    name: str,
    *,
    offset: int | None = None,
    limit: int | None = None,
    pages: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> RenderedFile:
    """Renders the content of a file called `name`. Raises ToolError for what cannot be shown."""
    kind = sniff(data, name)
    if pages is not None and kind.category is not Category.PDF:
        raise ValidationError.of("pages", "is only for PDF files", hint="Use offset and limit for this file.")
    match kind.category:
        case Category.TEXT:
            return _text(data, kind, offset, limit, limits)
        case Category.NOTEBOOK:
            return _notebook(data, kind, offset, limit, limits)
        case Category.PDF:
            return _pdf(data, kind, pages, limits)
        case Category.IMAGE:
            return _image(data, kind)
        case Category.BINARY:
            raise ToolError(
                f"This is a binary file ({len(data)} bytes) and has no text to show.",
                hint="Look at it with a program that knows its format, such as file, xxd or unzip -l.",
            )


def _with_note(content: str, note: str) -> str:
    if not note:
        return content
    return f"{content}\n\n[{note}]" if content else f"[{note}]"


def _text(data: bytes, kind: FileKind, offset: int | None, limit: int | None, limits: Limits) -> RenderedFile:
    file = decode(data)
    shown = text_page(file, offset, limit, limits)
    return RenderedFile(
        parts=(Text(_with_note(shown.text, shown.note)),),
        kind=kind,
        content=shown.raw,
        note=shown.note,
        encoding=file.encoding,
        newline=file.newline,
        first_line=shown.first_line,
        line_count=shown.line_count,
        total_lines=shown.total_lines,
        truncated=shown.truncated,
    )


def _notebook(data: bytes, kind: FileKind, offset: int | None, limit: int | None, limits: Limits) -> RenderedFile:
    shown = notebooks.read(data, offset, limit, limits)
    return RenderedFile(
        parts=(Text(_with_note(shown.text, shown.note)), *shown.pictures),
        kind=kind,
        content=shown.text,
        note=shown.note,
        encoding="utf-8",
        first_line=shown.first_cell,
        line_count=shown.cell_count,
        total_lines=shown.total_cells,
        truncated=shown.truncated,
    )


def _pdf(data: bytes, kind: FileKind, pages: str | None, limits: Limits) -> RenderedFile:
    shown = pdf.read(data, pages, limits)
    return RenderedFile(
        parts=(Text(_with_note(shown.text, shown.note)),),
        kind=kind,
        content=shown.text,
        note=shown.note,
        first_line=shown.pages[0],
        line_count=len(shown.pages),
        total_lines=shown.total_pages,
        truncated=shown.truncated,
    )


def _image(data: bytes, kind: FileKind) -> RenderedFile:
    picture, info = images.load_image(data)
    about = f"{info.media_type} image, {info.width}x{info.height} pixels, {len(data)} bytes"
    return RenderedFile(parts=(Text(about), picture), kind=kind, content=about, width=info.width, height=info.height)
