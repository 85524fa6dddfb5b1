"""Write, Edit and MultiEdit: change files, all or nothing, and never overwrite unseen content."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import Field

from toolyard.core.actions import Kind
from toolyard.core.calls import Result, Text
from toolyard.core.errors import FieldError, ToolError, ValidationError
from toolyard.dispatch.call_context import CallContext
from toolyard.dispatch.tool import Arguments, Tool
from toolyard.files import file_io
from toolyard.files.content.edits import EditOutcome, EditStep, apply_edits
from toolyard.files.content.file_type import Category, sniff
from toolyard.files.content.text import is_utf8
from toolyard.files.file_io import Contents, RewriteResult
from toolyard.files.mounts import Target
from toolyard.files.os_errors import explain
from toolyard.tools.structured_patch import patched_file_schema, structured_patch, structured_patch_of_bytes

Path = Annotated[str, Field(description="Absolute, or relative to the workspace")]


class WriteArguments(Arguments):
    file_path: Path
    content: str


class EditArguments(Arguments):
    file_path: Path
    old_string: Annotated[str, Field(description="Exact text, without line numbers; empty creates a new file")]
    new_string: str
    replace_all: bool = False


class EditItem(Arguments):
    old_string: str
    new_string: str
    replace_all: bool = False


class MultiEditArguments(Arguments):
    file_path: Path
    edits: Annotated[list[EditItem], Field(min_length=1)]


def write(arguments: WriteArguments, ctx: CallContext) -> Result:
    """Runs the Write tool."""
    data = encode_argument(arguments.content, "content")
    with ctx.open(arguments.file_path, Kind.WRITE, argument="file_path") as target:
        change = write_bytes(target, data, ctx, read_first=not ctx.limits.overwrite_unread)
        created = change.before is None
        shown = ctx.mounts.display_path(target.path)
        lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
        size = f"{_pluralize(lines, 'line')}, {_pluralize(len(data), 'byte')}"
        text = f"{'Created' if created else 'Replaced'} {shown} ({size})."
        facts = {"path": shown, "created": created, "bytes": len(data), "lines": lines}
        return Result((Text(text),), {**facts, **structured_patch_of_bytes(change.before, change.after)})


def write_bytes(target: Target, data: bytes, ctx: CallContext, *, read_first: bool) -> RewriteResult:
    """Replaces a file's whole content, unless it changed since this session last saw it.

    With `read_first`, a file that this session has neither read nor written is refused too.
    """
    session, real = ctx.call.session, target.real

    def new_content(before: Contents | None) -> bytes:
        ctx.check_time()  # the caller may have left while this waited for the lock
        if before is not None:
            check_was_read(before.data, target, ctx, read_first=read_first)
        return data

    change = file_io.rewrite(target, new_content, ctx.limits, ctx.check_can_wait)
    ctx.read_tracker.record(session, real, data)
    return change


def check_was_read(before: bytes, target: Target, ctx: CallContext, *, read_first: bool) -> None:
    """Raises ToolError if replacing `before` would destroy content that this session has not seen."""
    shown, session = ctx.mounts.display_path(target.path), ctx.call.session
    if ctx.read_tracker.has_changed(session, target.real, before):
        raise ToolError(
            f"{shown} has changed since it was last read; nothing was written.", hint="Read it again, then write."
        )
    if not read_first or not before or ctx.read_tracker.has_seen(session, target.real):
        return
    is_binary = sniff(before, target.path).category is Category.BINARY
    raise ToolError(
        f"{shown} exists and has not been read in this session; nothing was written.",
        hint="Read cannot show it, because it is binary. Write to another name, or delete it first if it is to go."
        if is_binary
        else "Read it first, then write. Edit changes a part of it.",
    )


def edit(arguments: EditArguments, ctx: CallContext) -> Result:
    """Runs the Edit tool."""
    step = EditStep(arguments.old_string, arguments.new_string, arguments.replace_all)
    check_edits((step,))
    return _edit_result(arguments.file_path, (step,), ctx)


def multi_edit(arguments: MultiEditArguments, ctx: CallContext) -> Result:
    """Runs the MultiEdit tool."""
    steps = tuple(EditStep(item.old_string, item.new_string, item.replace_all) for item in arguments.edits)
    check_edits(steps, prefix="edits")
    return _edit_result(arguments.file_path, steps, ctx)


def _edit_result(path: str, steps: Sequence[EditStep], ctx: CallContext) -> Result:
    # A failed match reports the closest text in the file, so an edit needs read access too.
    with ctx.open(path, Kind.WRITE, Kind.READ, argument="file_path") as target:
        outcome, created = edit_target(target, steps, ctx)
        shown = ctx.mounts.display_path(target.path)
        count = sum(outcome.replacements)
        text = f"Created {shown}." if created else f"Edited {shown}: {_pluralize(count, 'replacement')}."
        structured: dict[str, Any] = {
            "path": shown,
            "created": created,
            "replacements": list(outcome.replacements),
            "snippet": outcome.snippet,
            **structured_patch(outcome.before, outcome.after),
        }
        return Result((Text(f"{text}\n{outcome.snippet}"),), structured)


def _pluralize(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"


def edit_target(target: Target, steps: Sequence[EditStep], ctx: CallContext) -> tuple[EditOutcome, bool]:
    """Applies the steps to a file, or creates it with them. Also returns whether it was created."""

    def edit_content(before: bytes) -> EditOutcome:
        if not ctx.budget.may_block and not is_utf8(before):
            ctx.require_thread()  # its encoding has to be guessed
        return apply_edits(before, steps)

    return edit_file(target, edit_content, ctx, creates=not steps[0].old)


class EditedContent(Protocol):
    """The outcome of an edit, with the file's new content."""

    @property
    def data(self) -> bytes: ...


_Outcome = TypeVar("_Outcome", bound=EditedContent)


def edit_file(
    target: Target, edit: Callable[[bytes], _Outcome], ctx: CallContext, *, creates: bool = False
) -> tuple[_Outcome, bool]:
    """Edits the file's current content under its folder's lock. Also returns whether it was created (`creates`)."""
    done: list[_Outcome] = []

    def new_content(before: Contents | None) -> bytes:
        ctx.check_time()
        if before is None and not creates:
            raise explain(FileNotFoundError(2, "not there"), ctx.mounts.display_path(target.path))
        done.append(edit(before.data if before else b""))
        return done[-1].data

    if not target.exists and not creates:
        new_content(None)
    change = file_io.rewrite(target, new_content, ctx.limits, ctx.check_can_wait)
    _record_edit(change, target, ctx)
    return done[-1], change.before is None


def _record_edit(change: RewriteResult, target: Target, ctx: CallContext) -> None:
    """Records the new content if the session knew the old one. An edit alone does not show the rest of the file."""
    session, real = ctx.call.session, target.real
    if not change.before or (
        ctx.read_tracker.has_seen(session, real) and not ctx.read_tracker.has_changed(session, real, change.before)
    ):
        ctx.read_tracker.record(session, real, change.after)


def encode_argument(text: str, argument: str) -> bytes:
    """Encodes the text as UTF-8. Raises a ValidationError that names the argument if it is not valid Unicode."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValidationError.of(argument, "is not valid Unicode", hint="Send plain UTF-8 text.") from None


def check_edits(
    steps: Sequence[EditStep], prefix: str = "", names: tuple[str, str] = ("old_string", "new_string")
) -> None:
    """Rejects text that no file can contain, and edits without effect. `names` are the names of the arguments."""
    wrong: list[FieldError] = []
    old, new = names
    for number, step in enumerate(steps):
        place = f"{prefix}.{number}." if prefix else ""
        for name, text in ((old, step.old), (new, step.new)):
            if any("\ud800" <= character <= "\udfff" for character in text):
                wrong.append(FieldError(f"{place}{name}", "is not valid Unicode"))
        if step.old == step.new:
            wrong.append(FieldError(f"{place}{new}", f"is the same as {old}, so there is nothing to do"))
    if wrong:
        listed = "; ".join(f"{fault.field}: {fault.error}" for fault in wrong)
        raise ValidationError(f"Nothing was written: {listed}.", tuple(wrong), hint="Send the text as it should be.")


_EDIT_OUTPUT = patched_file_schema(
    created="boolean", replacements={"type": "array", "items": {"type": "integer"}}, snippet="string"
)

WRITE = Tool(
    name="Write",
    description="Create a file or replace all of it, atomically. An existing file has to be read first.",
    arguments=WriteArguments,
    output=patched_file_schema(created="boolean", bytes="integer", lines="integer"),
    run=write,
    is_quick=lambda _: True,
    kind="write",
    read_only=False,
    destructive=True,
)
EDIT = Tool(
    name="Edit",
    description="Replace text in a file. old_string must occur exactly once, unless replace_all.",
    arguments=EditArguments,
    output=_EDIT_OUTPUT,
    run=edit,
    is_quick=lambda _: True,
    kind="write",
    read_only=False,
    destructive=True,
    idempotent=False,
)
MULTI_EDIT = Tool(
    name="MultiEdit",
    description="Make several edits in one file, each on the result of the one before: all of them or none.",
    arguments=MultiEditArguments,
    output=_EDIT_OUTPUT,
    run=multi_edit,
    kind="write",
    read_only=False,
    destructive=True,
    idempotent=False,
)
