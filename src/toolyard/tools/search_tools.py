"""search_tools: finds a tool of any attached server, or a skill, by what it does, with few tokens of context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from toolyard.core.calls import Result, Text
from toolyard.dispatch.call_context import CallContext
from toolyard.dispatch.tool import Arguments, Tool, output_schema

if TYPE_CHECKING:
    from toolyard.skills.discovery import SkillEntry

_MOST_HITS = 20
_BUDGET_TOKENS = 300  # together with one tool's file, an agent reads about 500
_QUERY_CHARS = 10_000
_SUMMARY_CHARS = 200  # of a skill


class SearchToolsArguments(Arguments):
    query: Annotated[str, Field(min_length=1, max_length=_QUERY_CHARS, description="What the tool should do")]
    top: Annotated[int, Field(ge=1, le=_MOST_HITS, description="How many")] = 5


def search_tools(arguments: SearchToolsArguments, ctx: CallContext) -> Result:
    """Runs the search_tools tool."""
    hits, skills = ctx.codemode.find_tools(arguments.query, arguments.top), _matching_skills(arguments.query, ctx)
    if not hits and not skills:
        nothing = (
            "No tool fits." if ctx.codemode.catalog.tool_counts() else "No server's tools are known: `toolyard sync`."
        )
        return Result((Text(nothing),), {"tools": []})
    from toolyard.codemode.search import render_hits  # listing the tools does not need the search engine

    shown = [render_hits(hits, _BUDGET_TOKENS)] if hits else []
    tools: list[dict[str, Any]] = [
        {"server": hit.server, "tool": hit.tool, "path": hit.path, "score": hit.score, "summary": hit.summary}
        for hit in hits
    ]
    if not skills:
        return Result((Text(shown[0]),), {"tools": tools})
    shown += ["Skills that may do it:", *(_skill_text(entry) for entry in skills)]
    skill_fields = [{"path": entry.path, "module": entry.module, "summary": entry.description} for entry in skills]
    return Result((Text("\n\n".join(shown)),), {"tools": tools, "skills": skill_fields})


def _matching_skills(query: str, ctx: CallContext) -> list[SkillEntry]:
    from toolyard.skills.search import matching_skills

    return matching_skills(ctx.codemode.skill_library, ctx.permissions.is_visible, query)


def _skill_text(entry: SkillEntry) -> str:
    used = f"from {entry.module} import *" if entry.module else f"{entry.path}/SKILL.md"
    summary = entry.description
    return f"{used}\n    {summary if len(summary) <= _SUMMARY_CHARS else f'{summary[: _SUMMARY_CHARS - 1]}…'}"


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
