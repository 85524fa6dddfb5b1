"""Write, Edit and MultiEdit: change files, all or nothing, never on top of what nobody has seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import Field

from toolyard.core.actions import Kind
from toolyard.core.calls import Result, Text
from toolyard.core.errors import FieldError, ToolError, ValidationError
from toolyard.dispatch.call_context import Gate
from toolyard.dispatch.tool import Arguments, Tool
from toolyard.files import file_io
from toolyard.files.content.edits import EditOutcome, EditStep, apply_edits
from toolyard.files.content.file_type import Category, sniff
from toolyard.files.content.text import is_utf8
from toolyard.files.file_io import Change, Contents
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


def write(arguments: WriteArguments, gate: Gate) -> Result:
    data = encoded(arguments.content, "content")
    with gate.target(arguments.file_path, Kind.WRITE, argument="file_path") as target:
        change = write_bytes(target, data, gate, read_first=not gate.limits.overwrite_unread)
        created = change.before is None
        shown = gate.mounts.shown(target.path)
        lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
        size = f"{_count(lines, 'line')}, {_count(len(data), 'byte')}"
        text = f"{'Created' if created else 'Replaced'} {shown} ({size})."
        facts = {"path": shown, "created": created, "bytes": len(data), "lines": lines}
        return Result((Text(text),), {**facts, **structured_patch_of_bytes(change.before, change.after)})


def write_bytes(target: Target, data: bytes, gate: Gate, *, read_first: bool) -> Change:
    """Replace a file's whole content, unless it changed since this session last saw it.

    With `read_first`, a file that this session has neither read nor written is refused too.
    """
    session, real = gate.call.session, target.real

    def replaced(before: Contents | None) -> bytes:
        gate.check_time()  # nobody waits any more for what could not get the lock in time
        if before is not None:
            check_is_known(before.data, target, gate, read_first=read_first)
        return data

    change = file_io.rewrite(target, replaced, gate.limits, gate.may_wait)
    gate.seen.record(session, real, data)
    return change


def check_is_known(before: bytes, target: Target, gate: Gate, *, read_first: bool) -> None:
    """Raise a ToolError where replacing `before` would destroy what this session has not seen."""
    shown, session = gate.mounts.shown(target.path), gate.call.session
    if gate.seen.changed(session, target.real, before):
        raise ToolError(
            f"{shown} has changed since it was last read; nothing was written.", hint="Read it again, then write."
        )
    if not read_first or not before or gate.seen.knows(session, target.real):
        return
    is_binary = sniff(before, target.path).category is Category.BINARY
    raise ToolError(
        f"{shown} exists and has not been read in this session; nothing was written.",
        hint="Read cannot show it, because it is binary. Write to another name, or delete it first if it is to go."
        if is_binary
        else "Read it first, then write. Edit changes a part of it.",
    )


def edit(arguments: EditArguments, gate: Gate) -> Result:
    step = EditStep(arguments.old_string, arguments.new_string, arguments.replace_all)
    check_text((step,))
    return _edited(arguments.file_path, (step,), gate)


def multi_edit(arguments: MultiEditArguments, gate: Gate) -> Result:
    steps = tuple(EditStep(item.old_string, item.new_string, item.replace_all) for item in arguments.edits)
    check_text(steps, prefix="edits")
    return _edited(arguments.file_path, steps, gate)


def _edited(path: str, steps: Sequence[EditStep], gate: Gate) -> Result:
    # What does not match is answered with the closest text, so an edit reads as well.
    with gate.target(path, Kind.WRITE, Kind.READ, argument="file_path") as target:
        outcome, created = edit_target(target, steps, gate)
        shown = gate.mounts.shown(target.path)
        count = sum(outcome.replacements)
        text = f"Created {shown}." if created else f"Edited {shown}: {_count(count, 'replacement')}."
        structured: dict[str, Any] = {
            "path": shown,
            "created": created,
            "replacements": list(outcome.replacements),
            "snippet": outcome.snippet,
            **structured_patch(outcome.before, outcome.after),
        }
        return Result((Text(f"{text}\n{outcome.snippet}"),), structured)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"


def edit_target(target: Target, steps: Sequence[EditStep], gate: Gate) -> tuple[EditOutcome, bool]:
    """Apply the steps to a file, or make it with them. Whether it was made."""

    def edited(before: bytes) -> EditOutcome:
        if not gate.patient and not is_utf8(before):
            gate.takes_long()  # its encoding has to be guessed
        return apply_edits(before, steps)

    return edit_file(target, edited, gate, creates=not steps[0].old)


class Edited(Protocol):
    @property
    def data(self) -> bytes: ...


_Outcome = TypeVar("_Outcome", bound=Edited)


def edit_file(
    target: Target, edit: Callable[[bytes], _Outcome], gate: Gate, *, creates: bool = False
) -> tuple[_Outcome, bool]:
    """Edit what the file holds now, under its folder's lock. Whether it was made, which `creates` allows."""
    done: list[_Outcome] = []

    def edited(before: Contents | None) -> bytes:
        gate.check_time()
        if before is None and not creates:
            raise explain(FileNotFoundError(2, "not there"), gate.mounts.shown(target.path))
        done.append(edit(before.data if before else b""))
        return done[-1].data

    if not target.exists and not creates:
        edited(None)
    change = file_io.rewrite(target, edited, gate.limits, gate.may_wait)
    _record_edit(change, target, gate)
    return done[-1], change.before is None


def _record_edit(change: Change, target: Target, gate: Gate) -> None:
    """Whoever knew the file knows it after its own edit. An edit alone is no reading: the rest was not shown."""
    session, real = gate.call.session, target.real
    if not change.before or (gate.seen.knows(session, real) and not gate.seen.changed(session, real, change.before)):
        gate.seen.record(session, real, change.after)


def encoded(text: str, argument: str) -> bytes:
    """The text as UTF-8; a ValidationError that names the argument when it is no text."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValidationError.of(argument, "is not valid Unicode", hint="Send plain UTF-8 text.") from None


def check_text(
    steps: Sequence[EditStep], prefix: str = "", names: tuple[str, str] = ("old_string", "new_string")
) -> None:
    """Refuse what no file can hold and what changes nothing. `names` are the arguments' own."""
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


_EDITED = patched_file_schema(
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
    output=_EDITED,
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
    output=_EDITED,
    run=multi_edit,
    kind="write",
    read_only=False,
    destructive=True,
    idempotent=False,
)
