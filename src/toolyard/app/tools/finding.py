"""search_tools: find a tool of any attached server by what it does, at next to no cost in context."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from toolyard.app.gate import Gate
from toolyard.app.tool import Arguments, Tool, output_schema
from toolyard.core.calls import Result, Text

_MOST_HITS = 20
_BUDGET_TOKENS = 300  # with the file of one of them, an agent has read about 500
_QUERY_CHARS = 10_000


class SearchToolsArguments(Arguments):
    query: Annotated[str, Field(min_length=1, max_length=_QUERY_CHARS, description="What the tool should do")]
    top: Annotated[int, Field(ge=1, le=_MOST_HITS, description="How many")] = 5


def search_tools(arguments: SearchToolsArguments, gate: Gate) -> Result:
    hits = gate.codemode.find(arguments.query, arguments.top)
    if not hits:
        nothing = (
            "No tool fits." if gate.codemode.catalog.counts() else "No server's tools are known: `toolyard sync`."
        )
        return Result((Text(nothing),), {"tools": []})
    from toolyard.codemode.search import render_hits  # whoever only lists the tools needs no search engine

    shown = render_hits(hits, _BUDGET_TOKENS)
    tools: list[dict[str, Any]] = [
        {"server": hit.server, "tool": hit.tool, "path": hit.path, "score": hit.score, "summary": hit.summary}
        for hit in hits
    ]
    return Result((Text(shown),), {"tools": tools})


SEARCH_TOOLS = Tool(
    name="search_tools",
    description=(
        "Find tools of the attached MCP servers by what they do. Call them in execute_python: "
        "`from servers.NAME import tool; await tool(...)`."
    ),
    arguments=SearchToolsArguments,
    output=output_schema(tools={"type": "array", "items": {"type": "object"}}),
    run=search_tools,
    kind="read",
)
