"""NotebookEdit: replaces, inserts or deletes one cell of a Jupyter notebook."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from toolyard.core.actions import Kind
from toolyard.core.calls import Result, Text
from toolyard.core.errors import ValidationError
from toolyard.dispatch.call_context import CallContext
from toolyard.dispatch.tool import Arguments, Tool
from toolyard.files.content.notebook_edits import CellEdit, CellType, Mode, NotebookOutcome, edit_notebook
from toolyard.files.mounts import Target
from toolyard.tools.structured_patch import patched_file_schema, structured_patch
from toolyard.tools.write import Path, check_was_read, edit_file, encode_argument

_DONE = {"replace": "Replaced", "insert": "Inserted", "delete": "Deleted"}


class NotebookEditArguments(Arguments):
    notebook_path: Path
    new_source: str
    cell_id: Annotated[
        str | SkipJsonSchema[None], Field(description="As Read shows it; insert goes after it, or first without it")
    ] = None
    cell_type: Annotated[CellType | SkipJsonSchema[None], Field(description="Required for insert")] = None
    edit_mode: Mode = "replace"


def notebook_edit(arguments: NotebookEditArguments, ctx: CallContext) -> Result:
    """Runs the NotebookEdit tool."""
    edit = _validated_edit(arguments)
    with ctx.open(arguments.notebook_path, Kind.WRITE, Kind.READ, argument="notebook_path") as target:
        outcome = _apply_edit(target, edit, ctx)
        shown = ctx.mounts.display_path(target.path)
        structured: dict[str, Any] = {
            "path": shown,
            "cell_id": outcome.cell,
            "cell_type": outcome.type,
            "edit_mode": edit.mode,
            **structured_patch(outcome.before, outcome.after),
        }
        return Result((Text(f"{_DONE[edit.mode]} cell {outcome.cell} of {shown}."),), structured)


def _validated_edit(arguments: NotebookEditArguments) -> CellEdit:
    if arguments.cell_id is None and arguments.edit_mode != "insert":
        raise ValidationError.of(
            "cell_id", f"is required to {arguments.edit_mode} a cell", hint="Read the notebook: it shows the ids."
        )
    if arguments.cell_type is None and arguments.edit_mode == "insert":
        raise ValidationError.of("cell_type", "is required to insert a cell", hint="Send code or markdown.")
    encode_argument(arguments.new_source, "new_source")
    return CellEdit(arguments.edit_mode, arguments.cell_id, arguments.new_source, arguments.cell_type)


def _apply_edit(target: Target, edit: CellEdit, ctx: CallContext) -> NotebookOutcome:
    if not target.path.endswith(".ipynb"):
        raise ValidationError.of(
            "notebook_path", "is not the name of a notebook (.ipynb)", hint="Use Edit for other files."
        )

    def edit_content(before: bytes) -> NotebookOutcome:
        check_was_read(before, target, ctx, read_first=not ctx.limits.overwrite_unread)
        return edit_notebook(before, edit)

    return edit_file(target, edit_content, ctx)[0]


NOTEBOOK_EDIT = Tool(
    name="NotebookEdit",
    description="Replace, insert or delete one cell of a Jupyter notebook. Read it first.",
    arguments=NotebookEditArguments,
    output=patched_file_schema(cell_id="string", cell_type="string", edit_mode="string"),
    run=notebook_edit,
    kind="write",
    read_only=False,
    destructive=True,
    idempotent=False,
)
