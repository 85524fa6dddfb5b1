"""Replaces, inserts or deletes one cell of a Jupyter notebook; every other byte of the file stays.

Only the members of the cell that change are written, in the file's own layout: its indentation, the source as a list
of lines or one string, plain or escaped characters. The outputs of a replaced code cell are removed, since they
belong to the old source.
"""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from toolyard.core.errors import ToolError, ValidationError
from toolyard.files.content.json_spans import JsonSpan, items, members, without_span
from toolyard.files.content.text import decode, encode

CellType = Literal["code", "markdown"]
Mode = Literal["replace", "insert", "delete"]
_FORMAT = 4
_IDS_SINCE = 5  # the minor version of format 4
_NUMBERED = re.compile(r"cell-(\d{1,6})")
_INDENTED = re.compile(r"\{\r?\n([ \t]+)\"")
_ID_BYTES = 4


@dataclass(frozen=True, slots=True)
class CellEdit:
    """One edit of a notebook."""

    mode: Mode
    cell: str | None
    """The id of the cell, or `cell-N` for the one at index N. An insertion without one goes to the beginning."""
    source: str
    type: CellType | None


@dataclass(frozen=True, slots=True)
class NotebookOutcome:
    """A notebook after an edit."""

    data: bytes
    cell: str
    """The id of the edited cell."""
    type: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class _Notebook:
    text: str
    cells: list[JsonSpan]
    array: JsonSpan
    has_ids: bool
    unit: str
    """One step of indentation; empty if everything is on one line."""
    escapes: bool

    def cell(self, index: int) -> dict[str, Any]:
        return json.loads(self.text[self.cells[index].start : self.cells[index].end])


def edit_notebook(data: bytes, edit: CellEdit) -> NotebookOutcome:
    """Applies one edit to `data`. Raises ToolError or ValidationError, and then nothing is changed."""
    file = decode(data)
    notebook = _parse(file.text)
    index = _cell_index(notebook, edit)
    if edit.mode == "delete":
        cell = notebook.cell(index)
        text, identity, kind = without_span(file.text, notebook.cells, index), edit.cell or "", cell.get("cell_type")
    elif edit.mode == "insert":
        identity, kind = secrets.token_hex(_ID_BYTES) if notebook.has_ids else f"cell-{index}", edit.type
        text = _insert_cell(notebook, index, edit, identity)
    else:
        cell = notebook.cell(index)
        identity, kind = edit.cell or "", edit.type or cell.get("cell_type")
        text = _replace_cell(notebook, index, edit)
    after = replace(file, text=text)
    return NotebookOutcome(encode(after), identity, str(kind), file.printable, after.printable)


def _parse(text: str) -> _Notebook:
    try:
        root: object = json.loads(text)
        found = {span.name: span for span in members(text)} if isinstance(root, dict) else {}
        array = found.get("cells")
        cells = items(text, array.start) if array is not None else []
    except (ValueError, RecursionError) as error:
        raise ToolError(
            f"The notebook is not valid JSON: {error}. Nothing was written.",
            hint="Repair it with Edit, which changes it as text.",
        ) from None
    if array is None or any(text[span.start] != "{" for span in cells):
        raise ToolError(
            "The file has no list of cells, as notebooks of format 4 have. Nothing was written.",
            hint="Convert an older notebook with `jupyter nbconvert --to notebook --inplace` first.",
        )
    root = cast("dict[str, Any]", root)
    version = root.get("nbformat"), root.get("nbformat_minor")
    has_ids = all(isinstance(part, int) for part in version) and cast("tuple[int, int]", version) >= (
        _FORMAT,
        _IDS_SINCE,
    )
    indent = _INDENTED.match(text.lstrip())
    return _Notebook(text, cells, array, has_ids, indent[1] if indent else "", text.isascii() and "\\u" in text)


def _cell_index(notebook: _Notebook, edit: CellEdit) -> int:
    """Returns the index of the cell; for an insertion, that of the new one."""
    after = int(edit.mode == "insert")
    if edit.cell is None:
        return 0
    for index in range(len(notebook.cells)):
        if notebook.cell(index).get("id") == edit.cell:
            return index + after
    numbered = _NUMBERED.fullmatch(edit.cell)
    if numbered and int(numbered[1]) < len(notebook.cells):
        return int(numbered[1]) + after
    raise ValidationError.of(
        "cell_id",
        f"there is no cell {edit.cell[:100]!r} in this notebook",
        hint="Read the notebook: it shows the id of each cell.",
    )


def _replace_cell(notebook: _Notebook, index: int, edit: CellEdit) -> str:
    cell = notebook.cell(index)
    kind = edit.type or cell.get("cell_type")
    wanted: dict[str, Any] = {"cell_type": kind, "source": _source_value(edit.source, as_lines=_is_list(cell))}
    unwanted: set[str] = set()
    if kind == "code":
        wanted |= {"execution_count": None, "outputs": []}
    else:
        unwanted = {"execution_count", "outputs"}
    text = notebook.text
    for name in unwanted & cell.keys():
        spans = members(text, notebook.cells[index].start)
        text = without_span(text, spans, next(at for at, span in enumerate(spans) if span.name == name))
    for name, value in wanted.items():
        text = _with_member(notebook, text, notebook.cells[index].start, name, value)
    return text


def _with_member(notebook: _Notebook, text: str, cell: int, name: str, value: Any) -> str:
    """Returns `text` with one member of the cell set. An equal value keeps its formatting."""
    spans = members(text, cell)
    span = next((span for span in reversed(spans) if span.name == name), None)
    if span is not None and json.loads(text[span.start : span.end]) == value:
        return text
    depth = 3  # of a cell's members: the notebook, its list of cells, the cell
    if span is not None:
        return text[: span.start] + _dump_json(notebook, value, depth) + text[span.end :]
    spelled = f"{_dump_json(notebook, name, 0)}: {_dump_json(notebook, value, depth)}"
    if not spans:
        return text[: cell + 1] + spelled + text[cell + 1 :]
    gap, end = text[cell + 1 : spans[0].name_start], spans[-1].end
    return f"{text[:end]},{gap or ' '}{spelled}{text[end:]}"


def _insert_cell(notebook: _Notebook, index: int, edit: CellEdit, identity: str) -> str:
    as_lines = all(_is_list(notebook.cell(at)) for at in range(len(notebook.cells)))
    cell: dict[str, Any] = {"cell_type": edit.type}
    if edit.type == "code":
        cell["execution_count"] = None
    cell |= {"id": identity} if notebook.has_ids else {}
    cell["metadata"] = {}
    if edit.type == "code":
        cell["outputs"] = []
    cell["source"] = _source_value(edit.source, as_lines=as_lines)
    text, cells = notebook.text, notebook.cells
    spelled = _dump_json(notebook, cell, 2)
    if not cells:
        return text[: notebook.array.start] + _dump_json(notebook, [cell], 1) + text[notebook.array.end :]
    gap = text[notebook.array.start + 1 : cells[0].start]
    if index == 0:
        return f"{text[: cells[0].start]}{spelled},{gap or ' '}{text[cells[0].start :]}"
    before = cells[index - 1].end
    return f"{text[:before]},{gap or ' '}{spelled}{text[before:]}"


def _is_list(cell: dict[str, Any]) -> bool:
    return not isinstance(cell.get("source"), str)


def _source_value(text: str, *, as_lines: bool) -> str | list[str]:
    if not as_lines:
        return text
    *lines, last = text.split("\n")
    return [*(f"{line}\n" for line in lines), *([last] if last else [])]


def _dump_json(notebook: _Notebook, value: Any, depth: int) -> str:
    """Formats `value` in the layout of the notebook, indented by `depth` steps."""
    shown = json.dumps(value, ensure_ascii=notebook.escapes, indent=notebook.unit or None)
    newline = "\r\n" if "\r\n" in notebook.text else "\n"
    return shown.replace("\n", newline + notebook.unit * depth)
