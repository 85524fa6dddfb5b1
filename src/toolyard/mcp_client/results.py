"""Converts and validates results of servers. Invalid results raise errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from toolyard.core.limits import MIB
from toolyard.core.upstream import Json, ServerListing, ToolSchema, UpstreamResult
from toolyard.mcp_client.errors import CallFailed, ServerMisbehaved, invalid_result_error
from toolyard.mcp_client.network_hints import network_hint
from toolyard.mcp_client.secret_masking import SecretMask

MAX_TOOLS = 10_000
MAX_PAGES = 1_000
MAX_LISTING_BYTES = 256 * MIB

_TEXT_KEYS = frozenset({"description", "title", "default", "examples", "const", "$comment"})
"""Schema keys that hold texts and values. If one holds an object it may be the name of an argument."""
_COMPLETE_TYPES = (None, "complete")

FetchPage = Callable[[str | None], Awaitable[Mapping[str, Any]]]
"""Fetches one page of tools/list at a cursor."""
NoteCallback = Callable[[str], None]


def tool_answer(
    server: str, tool: str, result: object, mask: SecretMask, read_log: Callable[[], str] = lambda: ""
) -> UpstreamResult:
    """Returns the result of a call, with the secrets of the entry masked.

    `read_log` returns what the server printed during the call: many servers only log the reason of a failure.
    """
    if not isinstance(result, dict):
        raise invalid_result_error(server, tool)
    body = cast("dict[str, Any]", result)
    if body.get("resultType") not in _COMPLETE_TYPES:
        raise CallFailed(
            server,
            tool,
            f"Server '{server}' wants to ask the user before {tool} continues, which is not possible here",
            hint="Give the tool all it needs in its arguments.",
        )
    content = body.get("content", ())
    if not isinstance(content, list):
        content = ()
    blocks_in = [cast("Json", block) for block in cast("list[object]", content) if isinstance(block, dict)]
    try:
        blocks, structured = mask.mask_answer(blocks_in), mask.mask_answer(body.get("structuredContent"))
    except RecursionError:
        raise invalid_result_error(server, tool) from None
    answer = UpstreamResult(tuple(blocks), structured, body.get("isError") is True)
    hint = network_hint(answer.text) or network_hint(read_log()) if answer.is_error else ""
    if not hint:
        return answer
    return replace(answer, content=(*answer.content, {"type": "text", "text": f"Hint of Toolyard: {hint}"}))


def masked_listing(listing: ServerListing, mask: SecretMask) -> ServerListing:
    """Returns the listing with secrets masked. Names of tools and arguments stay, because calls need them."""
    try:
        tools = tuple(
            replace(
                tool,
                description=mask.mask_answer(tool.description),
                title=mask.mask_answer(tool.title),
                input_schema=_masked_schema(tool.input_schema, mask),
                output_schema=_masked_schema(tool.output_schema, mask),
            )
            for tool in listing.tools
        )
    except RecursionError:
        raise _misbehavior_error(listing.server, "lists a schema that is nested too deeply") from None
    return replace(listing, tools=tools, instructions=mask.mask_answer(listing.instructions))


def _masked_schema(schema: Any, mask: SecretMask) -> Any:
    if isinstance(schema, list):
        return [_masked_schema(one, mask) for one in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    return {
        key: mask.mask_answer(value)
        if key in _TEXT_KEYS and not isinstance(value, dict)
        else _masked_schema(value, mask)
        for key, value in cast("dict[str, Any]", schema).items()
    }


async def fetch_all_tools(
    server: str, fetch_page: FetchPage, note: NoteCallback, received_bytes: Callable[[], int]
) -> tuple[ToolSchema, ...]:
    """Fetches all pages, within limits. `received_bytes` counts the bytes from the server so far."""
    tools: dict[str, ToolSchema] = {}
    seen: set[str] = set()
    cursor: str | None = None
    before = received_bytes()
    for _ in range(MAX_PAGES):
        body = await fetch_page(cursor)
        listed = body.get("tools")
        if not isinstance(listed, list):
            raise _misbehavior_error(server, "answered tools/list without a list of tools")
        for raw in cast("list[object]", listed):
            tool = _parse_tool_schema(raw, note)
            if tool is not None and tools.setdefault(tool.name, tool) is not tool:
                note(f"tools/list: more than one tool is called {tool.name!r}; the first is used")
        if len(tools) > MAX_TOOLS or received_bytes() - before > MAX_LISTING_BYTES:
            raise _misbehavior_error(server, f"lists more than {MAX_TOOLS:,} tools or {MAX_LISTING_BYTES // MIB} MiB")
        following = body.get("nextCursor")
        if not following:
            return tuple(tools.values())
        if not isinstance(following, str) or following in seen:
            raise _misbehavior_error(server, "lists its tools in a loop: it repeats a page")
        seen.add(following)
        cursor = following
    raise _misbehavior_error(server, f"lists its tools on more than {MAX_PAGES:,} pages without an end")


def _misbehavior_error(server: str, what: str) -> ServerMisbehaved:
    return ServerMisbehaved(server, what, retryable=False)


def _parse_tool_schema(raw: object, note: NoteCallback) -> ToolSchema | None:
    tool = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
    name = tool.get("name")
    if not isinstance(name, str) or not name:
        note("tools/list: a tool without a name was left out")
        return None
    takes, gives = tool.get("inputSchema"), tool.get("outputSchema")
    if not isinstance(takes, dict):
        note(f"tools/list: {name!r} has an inputSchema that is not an object; it is treated as empty")
        takes = {}
    return ToolSchema(
        name=name,
        description=_text_or_empty(tool.get("description")),
        input_schema=cast("Json", takes),
        output_schema=cast("Json", gives) if isinstance(gives, dict) else None,
        annotations=_object_or_empty(tool.get("annotations")),
        title=_text_or_empty(tool.get("title")),
    )


def _text_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""


def _object_or_empty(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}
