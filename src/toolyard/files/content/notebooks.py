"""Renders Jupyter notebooks as text for a model: cells with their ids, and their outputs.

Formats 3 and 4 are supported, and missing or invalid parts are skipped: only a file that is not a notebook at all is
refused. `offset` and `limit` count cells.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from toolyard.core.calls import Image
from toolyard.core.errors import ToolError, ValidationError
from toolyard.files.content import images
from toolyard.files.content.text import decode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolyard.core.limits import Limits

IMAGES = 5
OUTPUT_CHARS = 4_000
"""A longer output of one cell is cut."""
_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_V3_KEYS = {"text": "text/plain", "png": "image/png", "jpeg": "image/jpeg", "html": "text/html"}
_TEXT_TYPES = ("text/markdown", "text/plain", "text/latex", "application/json", "text/html")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class NotebookPage:
    """Some cells. `note` says what is missing and how to get it."""

    text: str
    pictures: tuple[Image, ...]
    note: str
    first_cell: int
    cell_count: int
    total_cells: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class _RenderedCell:
    text: str
    pictures: tuple[Image, ...]


def read(data: bytes, offset: int | None, limit: int | None, limits: Limits) -> NotebookPage:
    """Returns at most `limit` cells from cell `offset` (1-based) on. Raises ToolError if it is not a notebook."""
    for name, value, least in (("offset", offset, 0), ("limit", limit, 1)):
        if value is not None and value < least:
            raise ValidationError.of(name, f"must be at least {least}, not {value}", hint="It counts cells, from 1.")
    root = _parse(data)
    language = _language(root)
    cells = list(_cells(root))
    first = max(1, offset or 1)
    if first > max(1, len(cells)):
        raise ToolError(
            f"Cell {first} is past the end: the notebook has {len(cells)} cells.",
            hint=f"Use an offset from 1 to {max(1, len(cells))}; in a notebook it counts cells.",
        )
    wanted = cells[first - 1 :][: limit or limits.read_lines]
    texts: list[str] = []
    pictures: list[Image] = []
    room = limits.output_chars
    for index, cell in enumerate(wanted, first):
        shown = _render_cell(cell, index, language, IMAGES - len(pictures))
        room -= len(shown.text) + 2
        if room < 0 and texts:
            break
        texts.append(shown.text if room >= 0 else f"{shown.text[: limits.output_chars]}\n... [cell cut]")
        pictures += shown.pictures
    last = first + len(texts) - 1
    note = f"Cells {first}-{last} of {len(cells)}" + (
        f"; use offset={last + 1} to read on (it counts cells)." if last < len(cells) else "."
    )
    if not cells:
        note = "The notebook has no cells."
    truncated = first > 1 or last < len(cells) or room < 0
    return NotebookPage("\n\n".join(texts), tuple(pictures), note, first, len(texts), len(cells), truncated)


def _parse(data: bytes) -> Json:
    try:
        root: object = json.loads(decode(data).text)
    except (ValueError, RecursionError) as error:
        raise ToolError(
            f"The notebook is not valid JSON: {error}.",
            hint="Read it under another name to see the text, and repair it with Edit.",
        ) from None
    if isinstance(root, dict) and ("cells" in root or "worksheets" in root):
        return cast("Json", root)
    raise ToolError(
        "This JSON is not a notebook: it has no cells.", hint="Read it under another name to see it as text."
    )


def _cells(root: Json) -> Iterator[Json]:
    yield from _objects(root.get("cells"))
    for sheet in _objects(root.get("worksheets")):
        yield from _objects(sheet.get("cells"))


def _language(root: Json) -> str:
    metadata = _object(root.get("metadata"))
    language = _object(metadata.get("language_info")).get("name") or _object(metadata.get("kernelspec")).get(
        "language"
    )
    return language if isinstance(language, str) else "python"


def _render_cell(cell: Json, index: int, language: str, pictures_left: int) -> _RenderedCell:
    kind = cell.get("cell_type")
    kind = kind if isinstance(kind, str) else "raw"
    identity = cell.get("id")
    identity = identity if isinstance(identity, str) else f"cell-{index - 1}"
    heading = f'<cell number="{index}" id="{identity}" type="{kind}"'
    heading += f' language="{language}">' if kind == "code" else ">"
    source = _join_text(cell.get("source", cell.get("input")))
    blocks = [f"{heading}\n{source}\n</cell>"]
    pictures: list[Image] = []
    for output in _objects(cell.get("outputs")):
        text, picture = _render_output(output, able=len(pictures) < pictures_left)
        if picture is not None:
            pictures.append(picture)
        if text:
            blocks.append(f'<output cell="{index}">\n{_cut_output(text)}\n</output>')
    return _RenderedCell("\n".join(blocks), tuple(pictures))


def _render_output(output: Json, *, able: bool) -> tuple[str, Image | None]:
    """Returns the text of one output, and its image if there is one that can be shown."""
    kind = output.get("output_type")
    if kind in {"error", "pyerr"}:
        trace = "\n".join(_strings(output.get("traceback")))
        message = f"{output.get('ename', 'Error')}: {output.get('evalue', '')}"
        return _ANSI.sub("", trace or message), None
    if kind == "stream":
        return _ANSI.sub("", _join_text(output.get("text"))), None
    bundle = _object(output.get("data")) or {new: output[old] for old, new in _V3_KEYS.items() if old in output}
    for media_type in _IMAGE_TYPES:
        if media_type in bundle:
            return _decode_picture(_join_text(bundle[media_type]), media_type, able=able)
    for media_type in _TEXT_TYPES:
        if media_type in bundle:
            value = bundle[media_type]
            text = json.dumps(value) if media_type == "application/json" else _join_text(value)
            return _ANSI.sub("", text), None
    return "", None


def _decode_picture(encoded: str, media_type: str, *, able: bool) -> tuple[str, Image | None]:
    if not able:
        return f"[{media_type} not shown: only {IMAGES} images are shown at a time]", None
    try:
        picture, info = images.load_image(base64.b64decode(encoded))
    except (binascii.Error, ValueError):
        return f"[{media_type} not shown: it is damaged]", None
    except ToolError as error:
        return f"[{media_type} not shown: {error.message}]", None
    return f"[{info.media_type}, {info.width}x{info.height}, shown below]", picture


def _cut_output(text: str) -> str:
    text = text.rstrip("\n")
    if len(text) <= OUTPUT_CHARS:
        return text
    return f"{text[:OUTPUT_CHARS]}\n... [output cut: {OUTPUT_CHARS} of {len(text)} characters]"


def _object(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


def _objects(value: object) -> Iterator[Json]:
    if isinstance(value, list):
        yield from (cast("Json", item) for item in cast("list[object]", value) if isinstance(item, dict))


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [item for item in cast("list[object]", value) if isinstance(item, str)]
    return []


def _join_text(value: object) -> str:
    """Joins text as notebooks store it: one string, or lines with their own line ends."""
    return "".join(_strings(value))
