"""Index files that are read before tool files: one line per tool and per server, for people, models and ripgrep."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from toolyard.codemode.files.literals import clip_text, render_markdown
from toolyard.codemode.files.tool_file import CompiledServer, CompiledTool
from toolyard.core.upstream import ToolSchema

_NAMED_TOOLS = 8
"""Tools that the line of a server names."""
_LONGEST_SIGNATURE = 600


def _json_line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(", ", ": "))


def _json_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Formats one row per line, so that a text search finds complete rows."""
    return "[\n" + ",\n".join(f"  {_json_line(row)}" for row in rows) + "\n]" if rows else "[]"


def index_json(
    server: str, version: str, fingerprint: str, tools: Sequence[CompiledTool], schemas: Sequence[ToolSchema]
) -> str:
    """Returns `index.json` of one server, with everything needed to call a tool."""
    rows = [
        {
            "name": tool.name,
            "function": tool.function,
            "path": tool.path,
            "signature": clip_text(tool.signature, _LONGEST_SIGNATURE),
            "summary": tool.summary,
            "read_only": _annotation_hint(schema, "readOnlyHint"),
            "destructive": _annotation_hint(schema, "destructiveHint"),
        }
        for tool, schema in zip(tools, schemas, strict=True)
    ]
    head = (
        f'"server": {_json_line(server)}, "version": {_json_line(version)}, "fingerprint": {_json_line(fingerprint)}'
    )
    return f'{{{head}, "tools": {_json_rows(rows)}}}\n'


def index_markdown(package: str, server: str, version: str, tools: Sequence[CompiledTool]) -> str:
    """Returns `INDEX.md` of one server, one line per tool."""
    named = "" if package.endswith(f".{server}") else f" (server `{render_markdown(server)}`)"
    lines = [f"# {package}{named}{' ' + render_markdown(version) if version else ''}", ""]
    lines += [f"- `{tool.function}`: {render_markdown(tool.summary)}" for tool in tools]
    return "\n".join(lines) + "\n"


def compile_index(servers: Sequence[CompiledServer], root: str = "servers") -> dict[str, str]:
    """Returns the files of `servers/` (or `tools/`) itself: name -> text, ordered by folder name."""
    ordered = sorted(servers, key=lambda one: one.folder)
    rows = [
        {"server": one.server, "name": tool.name, "path": tool.path, "summary": tool.summary}
        for one in ordered
        for tool in one.tools
    ]
    lines = [f"# {root}", "", f"`from {root}.<folder> import <tool>`. Each folder's INDEX.md lists its tools.", ""]
    return {
        "__init__.py": "",
        "index.json": f"{_json_rows(rows)}\n",
        "INDEX.md": "\n".join([*lines, *(_server_line(one) for one in ordered)]) + "\n",
    }


def _server_line(one: CompiledServer) -> str:
    named = "" if one.folder == one.server else f" (server `{render_markdown(one.server)}`)"
    names = ", ".join(tool.function for tool in one.tools[:_NAMED_TOOLS])
    more = f", and {len(one.tools) - _NAMED_TOOLS} more" if len(one.tools) > _NAMED_TOOLS else ""
    return f"- `{one.folder}`{named}: {names or 'no tools'}{more}"


def _annotation_hint(schema: ToolSchema, key: str) -> bool | None:
    found = schema.annotations.get(key) if isinstance(schema.annotations, Mapping) else None  # pyright: ignore[reportUnnecessaryIsInstance] - untrusted
    return found if isinstance(found, bool) else None
