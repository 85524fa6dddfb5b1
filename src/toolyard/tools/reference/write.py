"""write_file, edit_file, create_directory and move_file: each is atomic."""

from __future__ import annotations

import os
from typing import Annotated

from pydantic import Field

from toolyard.core.actions import Kind
from toolyard.core.calls import Result
from toolyard.core.errors import FieldError, ToolError, ToolyardError, ValidationError
from toolyard.core.paths import is_beneath
from toolyard.dispatch.call_context import CallContext
from toolyard.dispatch.tool import Arguments, Tool
from toolyard.files import file_io
from toolyard.files.content.diffs import unified_diff
from toolyard.files.content.edits import EditOutcome, EditStep, apply_edits
from toolyard.files.mounts import Target
from toolyard.files.os_errors import explain
from toolyard.tools.reference.results import CONTENT, Path, content_result
from toolyard.tools.write import check_edits, edit_target, encode_argument, write_bytes

_DIFF_CONTEXT = 4
_DIFF_RULE = "=" * 67
_SHORTEST_FENCE = 3
_TEXT_ARGUMENTS = ("oldText", "newText")
# The edit engine's messages use the words of the Edit tool.
_REFERENCE_WORDS = (
    ("old_string", "oldText"),
    ("new_string", "newText"),
    (", or set replace_all to change them all", ""),
    ("use Write", "use write_file"),
    ("with Write", "with write_file"),
)


class WriteArguments(Arguments):
    path: Path
    content: str


class EditItem(Arguments):
    old_text: Annotated[str, Field(alias="oldText", description="Exact text that occurs once")]
    new_text: Annotated[str, Field(alias="newText")]


class EditArguments(Arguments):
    path: Path
    edits: Annotated[list[EditItem], Field(min_length=1)]
    dry_run: Annotated[bool, Field(alias="dryRun", description="Only show the diff")] = False


class FolderArguments(Arguments):
    path: Path


class MoveArguments(Arguments):
    source: Path
    destination: Path


def write(arguments: WriteArguments, ctx: CallContext) -> Result:
    """Runs the write_file tool."""
    data = encode_argument(arguments.content, "content")
    with ctx.open(arguments.path, Kind.WRITE) as target:
        # Like the reference server, it replaces existing files. The preceding snapshot has the old content.
        write_bytes(target, data, ctx, read_first=False)
    return content_result(f"Successfully wrote to {arguments.path}")


def edit(arguments: EditArguments, ctx: CallContext) -> Result:
    """Runs the edit_file tool."""
    steps = tuple(EditStep(item.old_text, item.new_text) for item in arguments.edits)
    check_edits(steps, "edits", _TEXT_ARGUMENTS)
    # A preview changes nothing, so it needs no approval to write.
    kinds = (Kind.READ,) if arguments.dry_run else (Kind.WRITE, Kind.READ)
    with ctx.open(arguments.path, *kinds) as target:
        try:
            outcome = _preview(target, steps, ctx) if arguments.dry_run else edit_target(target, steps, ctx)[0]
        except ToolyardError as fault:
            raise _rewrite_error(fault) from fault
        return content_result(_diff(outcome, target.real, ctx))


def _preview(target: Target, steps: tuple[EditStep, ...], ctx: CallContext) -> EditOutcome:
    data = b"" if not target.exists and not steps[0].old else file_io.read(target, ctx.limits).data
    return apply_edits(data, steps, limits=ctx.limits)


def _diff(outcome: EditOutcome, path: str, ctx: CallContext) -> str:
    headings = (f"Index: {path}", _DIFF_RULE, f"--- {path}\toriginal", f"+++ {path}\tmodified")
    diff = unified_diff(
        outcome.before, outcome.after, path, ctx.limits.output_chars, headings=headings, context=_DIFF_CONTEXT
    )
    fence = "`" * _SHORTEST_FENCE
    while fence in diff:
        fence += "`"
    return f"{fence}diff\n{diff}\n{fence}\n\n"


def _rewrite_error(fault: ToolyardError) -> ToolyardError:
    # The lines after the first are quoted from the file and must not change.
    first, feed, quoted = fault.message.partition("\n")
    message, hint = _rewrite_text(first) + feed + quoted, _rewrite_text(fault.hint)
    if isinstance(fault, ValidationError):
        fields = tuple(FieldError(_rewrite_text(one.field), _rewrite_text(one.error)) for one in fault.fields)
        return ValidationError(message, fields, hint=hint)
    return type(fault)(message, hint=hint, retryable=fault.retryable)


def _rewrite_text(text: str) -> str:
    for word, ours in _REFERENCE_WORDS:
        text = text.replace(word, ours)
    return text


def create_folder(arguments: FolderArguments, ctx: CallContext) -> Result:
    """Runs the create_directory tool."""
    with ctx.open(arguments.path, Kind.WRITE) as target:
        file_io.make_folder(target)
    return content_result(f"Successfully created directory {arguments.path}")


def move(arguments: MoveArguments, ctx: CallContext) -> Result:
    """Runs the move_file tool."""
    with (
        ctx.open(arguments.source, Kind.READ, Kind.WRITE, argument="source") as source,
        ctx.open(arguments.destination, Kind.WRITE, argument="destination") as destination,
    ):
        _check_move(source, destination, ctx)
        if source.handle.is_folder:
            ctx.check_displacement(source)
            ctx.check_move(source, destination)
        file_io.move(source, destination, ctx.limits, ctx.check_can_wait)
    return content_result(f"Successfully moved {arguments.source} to {arguments.destination}")


def _check_move(source: Target, destination: Target, ctx: CallContext) -> None:
    """Rejects moves that a plain rename would report badly, or apply to something else."""
    if not source.exists:
        raise explain(FileNotFoundError(2, "not there"), source.path)
    held = next((root for root in ctx.mounts.declared_roots if is_beneath(root, source.real)), None)
    if held is not None:
        raise ToolError(
            f"{source.path} is or contains a folder this server was opened for ({held}).", hint="Move what is in it."
        )
    if _is_link(source):
        raise ToolError(
            f"{source.path} is a link to {source.real}; moving it would move that.",
            hint=f"If that is meant, move {source.real}.",
        )
    if is_beneath(destination.real, source.real) and destination.real != source.real:
        raise ValidationError.of(
            "destination", "lies inside the folder that is to be moved", hint="Choose a place outside it."
        )


def _is_link(target: Target) -> bool:
    """Whether the path's last component is a link, wherever its parent folders lie."""
    folder, name = os.path.split(os.path.relpath(target.path, target.root.path))
    try:
        with target.root.open(folder or ".") as holder:
            return os.path.join(holder.real, name) != target.real
    except OSError as error:
        raise explain(error, target.path) from error


WRITE_FILE = Tool(
    name="write_file",
    description="Create a file or replace all of it, atomically. Refused if it changed since you last read it.",
    arguments=WriteArguments,
    output=CONTENT,
    run=write,
    kind="write",
    read_only=False,
    destructive=True,
)
EDIT_FILE = Tool(
    name="edit_file",
    description=(
        "Replace texts in a file, each on the result of the one before: all of them or none. "
        "Answers with a git-style diff; dryRun only shows it."
    ),
    arguments=EditArguments,
    output=CONTENT,
    run=edit,
    kind="write",
    read_only=False,
    destructive=True,
    idempotent=False,
)
CREATE_DIRECTORY = Tool(
    name="create_directory",
    description="Make a folder with its parents. Nothing happens when it is there already.",
    arguments=FolderArguments,
    output=CONTENT,
    run=create_folder,
    kind="write",
    read_only=False,
)
MOVE_FILE = Tool(
    name="move_file",
    description="Move or rename a file or folder. Never replaces anything.",
    arguments=MoveArguments,
    output=CONTENT,
    run=move,
    kind="write",
    read_only=False,
    destructive=True,
    idempotent=False,
)
