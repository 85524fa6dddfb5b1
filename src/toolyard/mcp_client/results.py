"""A server's results as our types. What does not fit is refused in words, never guessed at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from toolyard.core.limits import MIB
from toolyard.core.upstream import Json, ServerListing, ToolAnswer, ToolSchema
from toolyard.mcp_client.errors import CallFailed, ServerMisbehaved, no_result
from toolyard.mcp_client.network_hints import network_hint
from toolyard.mcp_client.secret_masking import Mask

MOST_TOOLS = 10_000
MOST_PAGES = 1_000
MOST_LISTING_BYTES = 256 * MIB

_SAYINGS = frozenset({"description", "title", "default", "examples", "const", "$comment"})
"""Keys of a schema that hold texts and values. Where one holds an object it may be the name of an argument."""
_COMPLETE = (None, "complete")

Page = Callable[[str | None], Awaitable[Mapping[str, Any]]]
"""Fetches one page of tools/list at a cursor."""
Note = Callable[[str], None]


def tool_answer(
    server: str, tool: str, result: object, mask: Mask, logged: Callable[[], str] = lambda: ""
) -> ToolAnswer:
    """The answer of a call, without the secrets of the server's entry.

    `logged` returns what the server printed during the call: many answer a failure without its reason and log that.
    """
    if not isinstance(result, dict):
        raise no_result(server, tool)
    body = cast("dict[str, Any]", result)
    if body.get("resultType") not in _COMPLETE:
        raise CallFailed(
            server,
            tool,
            f"Server '{server}' wants to ask the user something before {tool} goes on, and nobody can be asked here",
            hint="Give the tool all it needs in its arguments.",
        )
    content = body.get("content", ())
    if not isinstance(content, list):
        content = ()
    given = [cast("Json", block) for block in cast("list[object]", content) if isinstance(block, dict)]
    try:
        blocks, structured = mask.answer(given), mask.answer(body.get("structuredContent"))
    except RecursionError:
        raise no_result(server, tool) from None
    answer = ToolAnswer(tuple(blocks), structured, body.get("isError") is True)
    hint = network_hint(answer.text) or network_hint(logged()) if answer.is_error else ""
    if not hint:
        return answer
    return replace(answer, content=(*answer.content, {"type": "text", "text": f"Hint of Toolyard: {hint}"}))


def masked_listing(listing: ServerListing, mask: Mask) -> ServerListing:
    """The listing without the secrets of the server's entry. Names of tools and arguments stay: calls need them."""
    try:
        tools = tuple(
            replace(
                tool,
                description=mask.answer(tool.description),
                title=mask.answer(tool.title),
                input_schema=_masked_schema(tool.input_schema, mask),
                output_schema=_masked_schema(tool.output_schema, mask),
            )
            for tool in listing.tools
        )
    except RecursionError:
        raise _misbehaved(listing.server, "lists a schema that is nested too deep to be read") from None
    return replace(listing, tools=tools, instructions=mask.answer(listing.instructions))


def _masked_schema(schema: Any, mask: Mask) -> Any:
    if isinstance(schema, list):
        return [_masked_schema(one, mask) for one in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    return {
        key: mask.answer(value) if key in _SAYINGS and not isinstance(value, dict) else _masked_schema(value, mask)
        for key, value in cast("dict[str, Any]", schema).items()
    }


async def all_tools(server: str, page: Page, note: Note, received: Callable[[], int]) -> tuple[ToolSchema, ...]:
    """Every page, within bounds. `received` counts the bytes that came from the server so far."""
    tools: dict[str, ToolSchema] = {}
    seen: set[str] = set()
    cursor: str | None = None
    before = received()
    for _ in range(MOST_PAGES):
        body = await page(cursor)
        listed = body.get("tools")
        if not isinstance(listed, list):
            raise _misbehaved(server, "answered tools/list without a list of tools")
        for raw in cast("list[object]", listed):
            tool = _schema(raw, note)
            if tool is not None and tools.setdefault(tool.name, tool) is not tool:
                note(f"tools/list: more than one tool is called {tool.name!r}; the first is used")
        if len(tools) > MOST_TOOLS or received() - before > MOST_LISTING_BYTES:
            raise _misbehaved(server, f"lists more than {MOST_TOOLS:,} tools or {MOST_LISTING_BYTES // MIB} MiB")
        following = body.get("nextCursor")
        if not following:
            return tuple(tools.values())
        if not isinstance(following, str) or following in seen:
            raise _misbehaved(server, "lists its tools in a circle: the same page comes again")
        seen.add(following)
        cursor = following
    raise _misbehaved(server, f"lists its tools on more than {MOST_PAGES:,} pages and does not come to an end")


def _misbehaved(server: str, what: str) -> ServerMisbehaved:
    return ServerMisbehaved(server, what, retryable=False)


def _schema(raw: object, note: Note) -> ToolSchema | None:
    tool = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
    name = tool.get("name")
    if not isinstance(name, str) or not name:
        note("tools/list: a tool without a name was left out")
        return None
    takes, gives = tool.get("inputSchema"), tool.get("outputSchema")
    if not isinstance(takes, dict):
        note(f"tools/list: {name!r} has an inputSchema that is no object; it is taken as empty")
        takes = {}
    return ToolSchema(
        name=name,
        description=_text(tool.get("description")),
        input_schema=cast("Json", takes),
        output_schema=cast("Json", gives) if isinstance(gives, dict) else None,
        annotations=_object(tool.get("annotations")),
        title=_text(tool.get("title")),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _object(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}
