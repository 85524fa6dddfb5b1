"""read_file, read_text_file, read_media_file and read_multiple_files: file content without line numbers."""

from __future__ import annotations

import base64
import mimetypes
from typing import Annotated, Any

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from toolyard.core.actions import Kind
from toolyard.core.calls import Blob, Image, Result
from toolyard.core.errors import SecurityError, ToolError, ToolyardError, ValidationError
from toolyard.core.uris import path_to_uri
from toolyard.dispatch.call_context import CallContext
from toolyard.dispatch.tool import Arguments, Tool
from toolyard.files import file_io
from toolyard.files.content import images
from toolyard.files.content.file_type import Category, sniff
from toolyard.files.content.text import decode
from toolyard.files.head_tail import read_beginning, read_end
from toolyard.files.mounts import Target
from toolyard.tools.reference.results import CONTENT, Path, content_result, object_schema

_LONGEST_CHARACTER = 4  # bytes of one character in UTF-8
_BINARY = "application/octet-stream"
_SEPARATOR = "\n---\n"
_MOST_NAMED = 5

Lines = Annotated[int, Field(ge=0)] | SkipJsonSchema[None]


class TextArguments(Arguments):
    path: Path
    head: Annotated[Lines, Field(description="Only the first N lines")] = None
    tail: Annotated[Lines, Field(description="Only the last N lines")] = None


class MediaArguments(Arguments):
    path: Path


class ManyArguments(Arguments):
    paths: Annotated[list[str], Field(min_length=1)]


def read_text(arguments: TextArguments, ctx: CallContext) -> Result:
    """Runs the read_text_file tool."""
    head, tail = arguments.head or 0, arguments.tail or 0  # none and 0 both mean the whole file
    if head and tail:
        raise ValidationError.of("tail", "cannot be used together with head", hint="Send one of the two.")
    with ctx.open(arguments.path, Kind.READ) as target:
        if file_io.is_large(target, ctx.limits):
            return _large_file_ends(target, head, tail, ctx)
        text = _read_whole_text(target, ctx)
    if tail:
        return _truncate_before(_last_lines(text, tail), ctx)
    return _truncate_after(_first_lines(text, head) if head else text, ctx)


def _read_whole_text(target: Target, ctx: CallContext) -> str:
    """Reads a whole text file and records it as seen by this session."""
    contents = file_io.read(target, ctx.limits)
    _refuse_binary(contents.data, target)
    ctx.read_tracker.record(ctx.call.session, target.real, contents.data)
    return decode(contents.data).printable


def _refuse_binary(data: bytes, target: Target) -> None:
    kind = sniff(data, target.path)
    if kind.category not in {Category.TEXT, Category.NOTEBOOK}:
        raise ToolError(f"{target.path} is not text but {kind.media_type}.", hint="Use read_media_file for it.")


def _large_file_ends(target: Target, head: int, tail: int, ctx: CallContext) -> Result:
    """Returns the first or last lines, from as many bytes as a result can contain."""
    window = ctx.limits.output_chars * _LONGEST_CHARACTER
    if head:
        data = read_beginning(target, window)
        _refuse_binary(data, target)
        return _truncate_after(_first_lines(data.decode("utf-8", "replace"), head), ctx)
    if tail:
        data = read_end(target, window)
        _refuse_binary(data, target)
        return _truncate_before(_last_lines(data.decode("utf-8", "replace"), tail), ctx)
    raise ValidationError.of(
        "path",
        f"{target.path} has {target.handle.status.st_size:,} bytes; the limit is {ctx.limits.file_bytes:,}",
        hint="Read its beginning with head or its end with tail, or raise limits.file_bytes in the configuration.",
    )


def _first_lines(text: str, count: int) -> str:
    return "\n".join(text.removesuffix("\n").split("\n", count)[:count])


def _last_lines(text: str, count: int) -> str:
    return "\n".join(text.removesuffix("\n").rsplit("\n", count)[-count:])


def _truncate_after(text: str, ctx: CallContext) -> Result:
    most = ctx.limits.output_chars
    if len(text) <= most:
        return content_result(text)
    return content_result(
        text[:most], f"Only the first {most:,} of {len(text):,} characters are shown; the rest is not."
    )


def _truncate_before(text: str, ctx: CallContext) -> Result:
    most = ctx.limits.output_chars
    if len(text) <= most:
        return content_result(text)
    return content_result(
        text[-most:], f"Only the last {most:,} of {len(text):,} characters are shown; the rest is not."
    )


def read_media(arguments: MediaArguments, ctx: CallContext) -> Result:
    """Runs the read_media_file tool."""
    with ctx.open(arguments.path, Kind.READ) as target:
        data = file_io.read(target, ctx.limits).data
        ctx.read_tracker.record(ctx.call.session, target.real, data)
    if sniff(data, target.path).category is Category.IMAGE:
        picture, info = images.load_image(data)
        block = {"type": "image", "data": _base64(data), "mimeType": info.media_type}
        return Result((Image(picture.data, picture.media_type),), {"content": [block]})
    media_type = mimetypes.guess_type(target.path)[0] or _BINARY
    whole = Blob(data, media_type, path_to_uri(target.path))
    if media_type.startswith("audio/"):
        block = {"type": "audio", "data": _base64(data), "mimeType": media_type}
        return Result((whole,), {"content": [block]})
    resource = {"uri": path_to_uri(target.path), "mimeType": media_type, "blob": _base64(data)}
    return Result((whole,), {"content": [{"type": "resource", "resource": resource}]})


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def read_many(arguments: ManyArguments, ctx: CallContext) -> Result:
    """Reads every readable file and names the others with their reasons. Raises an error if none is readable."""
    shown: list[str] = []
    faults: list[ToolyardError] = []
    left = ctx.limits.output_chars
    for path in arguments.paths:
        ctx.check_time()
        try:
            content = _read_one(path, left, ctx)
        except ToolyardError as fault:
            faults.append(fault)
            shown.append(f"{path}: Error - {fault}")
        else:
            left -= len(content)
            shown.append(f"{path}:\n{content}\n")
    if len(faults) == len(arguments.paths):
        raise _combined_error(faults)
    return content_result(_SEPARATOR.join(shown))


def _read_one(path: str, left: int, ctx: CallContext) -> str:
    with ctx.open(path, Kind.READ, argument="paths") as target:
        content = _read_whole_text(target, ctx) if left > 0 else ""
    if left <= 0 or len(content) > left:
        raise ToolError("Left out: the answer would be too long.", hint="Read it with read_text_file.")
    return content


def _combined_error(faults: list[ToolyardError]) -> ToolyardError:
    """Combines the errors into one; a security refusal takes precedence over other failures."""
    worst = next((fault for fault in faults if isinstance(fault, SecurityError)), faults[0])
    if len(faults) == 1:
        return worst
    listed = " ".join(str(fault) for fault in faults[:_MOST_NAMED])
    if isinstance(worst, ValidationError):
        return ValidationError(f"None of the files could be read. {listed}", worst.fields)
    return type(worst)(f"None of the files could be read. {listed}")


_STRING: dict[str, Any] = {"type": "string"}
_BLOCKS: dict[str, Any] = {
    "type": "array",
    "items": {
        "anyOf": [
            object_schema(type={"enum": ["image", "audio"]}, data=_STRING, mimeType=_STRING),
            object_schema(
                type={"const": "resource"}, resource=object_schema(uri=_STRING, mimeType=_STRING, blob=_STRING)
            ),
        ]
    },
}

READ_FILE = Tool(
    name="read_file",
    description="The same as read_text_file, under its old name.",
    arguments=TextArguments,
    output=CONTENT,
    run=read_text,
    kind="read",
)
READ_TEXT_FILE = Tool(
    name="read_text_file",
    description="Read a text file: all of it, or its first (head) or last (tail) lines.",
    arguments=TextArguments,
    output=CONTENT,
    run=read_text,
    kind="read",
)
READ_MEDIA_FILE = Tool(
    name="read_media_file",
    description="Read an image, a sound or any other file as base64 with its media type.",
    arguments=MediaArguments,
    output=object_schema(content=_BLOCKS),
    run=read_media,
    kind="read",
)
READ_MULTIPLE_FILES = Tool(
    name="read_multiple_files",
    description="Read several text files at once. One that cannot be read does not keep the others from being read.",
    arguments=ManyArguments,
    output=CONTENT,
    run=read_many,
    kind="read",
)
