"""The functions that agent code calls: tools of servers, custom tools, search, and skills.

Each sends one request to the host's broker and returns its answer, or raises an exception of `errors`. The plain
names are coroutines, those that end in `_sync` block; search and skills block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from toolyard_runtime.broker import Message, Progress
from toolyard_runtime.results import Result

__all__ = [
    "SkillInfo",
    "ToolMatch",
    "call_custom_tool",
    "call_custom_tool_sync",
    "call_mcp_tool",
    "call_mcp_tool_sync",
    "list_skills",
    "promote_skill",
    "save_skill",
    "semantic_search",
]


async def call_mcp_tool(
    server: str,
    tool: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    timeout: float | None = None,  # noqa: ASYNC109 - it also stops the server, unlike asyncio.timeout
    progress: Progress | None = None,
) -> Result[Any]:
    """Calls a tool of a server. `timeout` is in seconds; `progress` gets (done, total or None, message)."""
    from toolyard_runtime import channel

    request = _mcp_request(server, tool, arguments, timeout, progress)
    return _result(await channel.call(request, progress))


def call_mcp_tool_sync(
    server: str,
    tool: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    timeout: float | None = None,
    progress: Progress | None = None,
) -> Result[Any]:
    """As `call_mcp_tool`, but blocks."""
    from toolyard_runtime import broker

    return _result(broker.call(_mcp_request(server, tool, arguments, timeout, progress), progress))


async def call_custom_tool(*tool_name: str, **arguments: Any) -> Any:
    """Calls a custom tool by its name, "group.tool", with keyword arguments."""
    from toolyard_runtime import channel

    return _plain_value(await channel.call(_custom_request(tool_name, arguments)))


def call_custom_tool_sync(*tool_name: str, **arguments: Any) -> Any:
    """As `call_custom_tool`, but blocks."""
    from toolyard_runtime import broker

    return _plain_value(broker.call(_custom_request(tool_name, arguments)))


class ToolMatch:
    """One tool that a search found, with the information needed to call it."""

    __slots__ = ("path", "relevance_score", "server", "signature", "summary", "tool")

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.path = str(fields.get("path", ""))
        self.relevance_score = float(fields.get("score", 0.0))
        self.server = str(fields.get("server", ""))
        self.tool = str(fields.get("tool", ""))
        self.summary = str(fields.get("summary", ""))
        self.signature = str(fields.get("signature", ""))

    def __repr__(self) -> str:
        return f"<{self.path} {self.relevance_score:.2f}: {self.signature or self.summary}>"


def semantic_search(query: str, search_paths: Sequence[str] | None = None, top_k: int = 5) -> list[ToolMatch]:
    """Returns the tools that fit a task best, the best first. `search_paths` narrows it: `["servers/github/"]`."""
    from toolyard_runtime import broker

    wanted: Message = {"query": query, "top_k": top_k}
    if search_paths is not None:
        wanted["search_paths"] = [search_paths] if isinstance(search_paths, str) else list(search_paths)
    return list(_tool_matches(broker.call({"do": "search", "arguments": wanted})))


def save_skill(name: str, code: str, description: str) -> str:
    """Saves Python code as the skill `name` of this agent; returns the path of its folder.

    It is refused, with the reason, if it does not parse, imports a missing module, or has an example (a `>>>` in a
    docstring) that fails. Use it with `from skills.<name> import ...`; the previous one is kept as a version.
    """
    arguments = {"name": name, "code": code, "description": description}
    return _request_skill("skill", arguments)


def promote_skill(name: str, *, replace: bool = False) -> str:
    """Copies a skill of this agent to `skills/community/<name>`. `replace` overwrites another agent's."""
    return _request_skill("promote", {"name": name, "replace": replace})


class SkillInfo:
    """One skill that can be used here. `module` is its import name, empty if it has no Python."""

    __slots__ = ("description", "module", "name", "owner", "path")

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.name = str(fields.get("name", ""))
        self.owner = str(fields.get("owner", ""))
        self.path = str(fields.get("path", ""))
        self.description = str(fields.get("description", ""))
        self.module = str(fields.get("module", ""))

    def __repr__(self) -> str:
        return f"<{self.module or self.path}: {self.description}>"


def list_skills() -> list[SkillInfo]:
    """Returns the usable skills: your own, the community's, other agents', those of attached folders."""
    from toolyard_runtime import broker

    return list(map(SkillInfo, broker.call({"do": "skills", "arguments": {}})))


def _request_skill(do: str, arguments: Message) -> str:
    import importlib

    from toolyard_runtime import broker

    path = str(broker.call({"do": do, "arguments": arguments}))
    importlib.invalidate_caches()  # so that it can be imported immediately
    return path


def _mcp_request(
    server: str, tool: str, arguments: Mapping[str, Any] | None, seconds: float | None, progress: Progress | None
) -> Message:
    request: Message = {"do": "mcp", "server": server, "tool": tool, "arguments": arguments or {}}
    if seconds is not None:
        request["timeout"] = seconds
    if progress is not None:
        request["progress"] = True
    return request


def _custom_request(tool_name: tuple[str, ...], arguments: dict[str, Any]) -> Message:
    """Builds a request. The name may be a keyword argument too, unless the tool has an argument called that."""
    if len(tool_name) > 1:
        raise TypeError("arguments of a custom tool are given by name")
    if not tool_name and "tool_name" not in arguments:
        raise TypeError('the name of the custom tool is missing: call_custom_tool("group.tool", ...)')
    name = tool_name[0] if tool_name else arguments.pop("tool_name")
    return {"do": "custom", "tool": name, "arguments": arguments}


def _result(answer: Any) -> Result[Any]:
    return Result(answer.get("content", ()), answer.get("structured"))


def _plain_value(answer: Any) -> Any:
    """Returns what a host function returned: its value, or its text; a Result for other content."""
    if "structured" in answer:
        return answer["structured"]
    result = _result(answer)
    return result.text if all(block.type == "text" for block in result.content) else result


def _tool_matches(answer: Any) -> Iterator[ToolMatch]:
    yield from map(ToolMatch, answer)
