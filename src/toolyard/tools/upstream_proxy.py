"""Upstream tools in a client's own list: for the few that an agent uses all the time (`in_context_tools`).

Each keeps its server's schema and description, and is called in the same way as every upstream tool. Results that are
too long are cut, and saved whole to a file in the workspace.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from toolyard.core.calls import Blob, Image, Part, Result, Text
from toolyard.core.errors import ToolError
from toolyard.core.upstream import Json, ToolSchema, UpstreamResult
from toolyard.dispatch.call_context import CallContext
from toolyard.dispatch.tool import Arguments, Tool
from toolyard.sandbox.output_capture import OutputCapture, truncate_middle
from toolyard.sandbox.spec import Stream

_NAME_CHARS = 64
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_HASH_CHARS = 8
_ANYTHING: dict[str, Any] = {"type": "object"}


class AnyArguments(Arguments):
    """Arguments as the caller gave them: the server validates them."""

    given: dict[str, Any]


@dataclass(frozen=True)
class UpstreamTool(Tool[AnyArguments]):
    """A tool of another server, or a custom tool, as our own clients see it."""

    schema: ToolSchema = field(default_factory=lambda: ToolSchema(""))
    server: str = ""
    """The group, for a custom tool."""
    upstream_name: str = ""
    """The name on its server."""
    is_custom: bool = False

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        return {"type": "object", **self.schema.input_schema}

    def parse_arguments(self, raw: dict[str, Any]) -> AnyArguments:
        return AnyArguments(given=raw)


def upstream_tool(server: str, schema: ToolSchema, *, is_custom: bool = False) -> UpstreamTool:
    """Returns the tool for a client's list. For a custom tool, `server` is its group."""
    name = schema.name.removeprefix(f"{server}.") if is_custom else schema.name
    known_as = f"{server}.{name}" if is_custom else f"mcp__{server}__{name}"

    def run(arguments: AnyArguments, ctx: CallContext) -> Result:
        ctx.before_upstream_call(known_as, schema)
        with ctx.route_approvals_to_caller():
            answer = ctx.codemode.call_for_client(server, name, arguments.given, ctx.call, is_custom=is_custom)
        return _build_result(answer, ctx)

    return UpstreamTool(
        name=served_name(server, name),
        description=schema.description or schema.title or f"{schema.name} of {server}",
        arguments=AnyArguments,
        output=dict(schema.output_schema) if schema.output_schema is not None else _ANYTHING,
        run=run,
        kind="call",
        read_only=schema.is_read_only,
        destructive=schema.is_destructive,
        idempotent=schema.annotations.get("idempotentHint") is True,
        schema=schema,
        server=server,
        upstream_name=name,
        is_custom=is_custom,
    )


def served_name(server: str, tool: str) -> str:
    """Returns `server__tool` with only the characters that every client accepts; a changed name ends in a hash."""
    whole = f"{server}__{tool}"
    clean = _NOT_IN_NAMES.sub("_", whole)
    if clean == whole and len(clean) <= _NAME_CHARS:
        return clean
    mark = hashlib.blake2b(whole.encode("utf-8", "replace"), digest_size=_HASH_CHARS // 2).hexdigest()
    return f"{clean[: _NAME_CHARS - _HASH_CHARS - 1]}_{mark}"


def _build_result(answer: UpstreamResult, ctx: CallContext) -> Result:
    if answer.is_error:
        raise ToolError(truncate_middle(answer.text, ctx.limits.output_chars) or "The tool failed without a message.")
    parts = tuple(_content_part(block, ctx) for block in answer.content) or (Text("(no content)"),)
    if answer.structured is None:
        return Result(parts, {"text": answer.text})
    structured: object = answer.structured
    fields = cast("dict[str, Any]", structured) if isinstance(structured, dict) else {"result": structured}
    return Result(parts, fields)


def _content_part(block: Json, ctx: CallContext) -> Part:
    kind = block.get("type")
    if kind in {"image", "audio"}:
        data = _decode_base64(block.get("data"))
        media_type = str(block.get("mimeType", "application/octet-stream"))
        return Image(data, media_type) if kind == "image" else Blob(data, media_type, "")
    return Text(_shown_text(str(block.get("text", "")) if kind == "text" else str(dict(block)), ctx))


def _decode_base64(data: object) -> bytes:
    try:
        return base64.b64decode(str(data or ""), validate=True)
    except ValueError:
        return b""


def _shown_text(text: str, ctx: CallContext) -> str:
    most = ctx.limits.output_chars
    if len(text) <= most:
        return text
    captured = OutputCapture({Stream.OUT: text.encode("utf-8", "replace")})
    saved = captured.save(ctx.mounts, f"call-{ctx.call.id}", ctx.limits)
    return truncate_middle(text, most, f"; the whole result is in {saved}" if saved else "")
