"""Selects the tools that a client is served: the toolset it asked for, or the groups of `in_context_tools`.

A group is `filesystem` (our file tools, under the reference server's names or Claude Code's), `code_execution`, a
server or a group of custom tools. Our own groups keep their names: a server called `filesystem` is named by its
folder. Tools outside the named groups stay files, which search_tools finds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from toolyard.app.toolsets import Toolset, Toolsets, has_code_mode, is_served, sets_of, tools_of
from toolyard.codemode.files import OWN_SERVER, code_name, folder_names, server_for_code_name
from toolyard.config.suggestions import did_you_mean
from toolyard.core.errors import ConfigError
from toolyard.dispatch.tool import Tool
from toolyard.tools.search_tools import SEARCH_TOOLS

if TYPE_CHECKING:
    from toolyard.codemode.catalog import KnownTool
    from toolyard.codemode.custom import CustomTools
    from toolyard.codemode.service import CodeMode
    from toolyard.config.authorization import Authorization
    from toolyard.config.models import Agent
    from toolyard.config.server_registry import ResolvedServers

GroupChoice = Literal["*"] | tuple[str, ...]
FILESYSTEM, CODE_EXECUTION = OWN_SERVER, "code_execution"


class ToolCatalog(Protocol):
    """The known tools of servers."""

    def tools(self, server: str) -> Iterable[KnownTool]:
        """Returns the known tools of a server."""
        ...


@dataclass(frozen=True, slots=True)
class OfflineToolSource:
    """The known upstream tools and an agent's rights to them, without an open workspace."""

    resolved_servers: ResolvedServers
    catalog: ToolCatalog
    custom: CustomTools
    authorization: Authorization
    custom_authorization: Authorization


ToolSource: TypeAlias = "CodeMode | OfflineToolSource"


def tools_in_context(
    toolsets: Toolsets, choices: Mapping[str, GroupChoice], source: ToolSource
) -> dict[str, Tool[Any]]:
    """Returns what `--tools` serves if the configuration has `in_context_tools`.

    With code mode these are the selected tools, and those of `minimal` and `workspace` if they are asked for. Without
    code mode the other tools would be unreachable, so a group that is not named keeps the tools of the set.
    """
    sets = sets_of(toolsets)
    names = Toolset.CLAUDE if Toolset.CLAUDE in sets and Toolset.REFERENCE not in sets else Toolset.REFERENCE
    chosen = in_context_tools(choices, source, names)
    if has_code_mode(toolsets):
        also = [each for each in (Toolset.MINIMAL, Toolset.WORKSPACE) if each in sets]
        also += [Toolset.WORKSPACE] if Toolset.ALL in sets else []
        return {**chosen, **tools_of(tuple(also))}
    replaced = {name for group in choices if group in OWN_GROUPS for name in OWN_GROUPS[group]()}
    others = {name: tool for name, tool in tools_of(toolsets).items() if name not in replaced}
    return {**others, **{name: tool for name, tool in chosen.items() if name != SEARCH_TOOLS.name}}


def is_for_agent(agent: Agent | None, tool: Tool[Any], source: ToolSource) -> bool:
    """Whether the agent's lists allow the tool. Patterns for upstream tools do not apply to our own, and vice
    versa.
    """
    from toolyard.tools.upstream_proxy import UpstreamTool

    if isinstance(tool, UpstreamTool):
        rights = source.custom_authorization if tool.is_custom else source.authorization
        return rights.may_call(tool.server, tool.upstream_name)
    return agent is None or is_served(tool.name, agent.backend.allowed_tools, agent.backend.exclude_tools)


def in_context_tools(
    choices: Mapping[str, GroupChoice], source: ToolSource, names: Toolset = Toolset.REFERENCE
) -> dict[str, Tool[Any]]:
    """Returns the tools of these groups, and search_tools for the rest.

    `names` selects the naming scheme for a whole group of our file tools; single tools keep the name they are asked
    by. Raises ConfigError for an unknown name, or for two tools with the same name.
    """
    tools: dict[str, Tool[Any]] = {SEARCH_TOOLS.name: SEARCH_TOOLS}
    owners = {SEARCH_TOOLS.name: f'"{SEARCH_TOOLS.name}"'}
    for group, choice in choices.items():
        known = _tools_of_group(group, source)
        for name in _preferred_names(group, known, names) if choice == "*" else choice:
            if name not in known:
                raise ConfigError(
                    f'in_context_tools names "{name}", which is not a tool of "{group}".',
                    hint=did_you_mean(name, known) if known else f"Run `toolyard sync {group}` first.",
                )
            served, this = known[name].name, f'"{name}" of "{group}"'
            other = owners.setdefault(served, this)
            if other != this:
                what = f'in_context_tools names {other} and {this}, which would both be served as "{served}".'
                raise ConfigError(what, hint="Leave one of them out: search_tools still finds it.")
            tools[served] = known[name]
    return tools


def available_choices(choices: Mapping[str, GroupChoice], source: ToolSource) -> dict[str, GroupChoice]:
    """Returns the choices without groups and tools that no longer exist."""
    available: dict[str, GroupChoice] = {}
    for group, choice in choices.items():
        try:
            known = _tools_of_group(group, source)
        except ConfigError:
            continue
        available[group] = choice if choice == "*" else tuple(name for name in choice if name in known)
    return available


def _tools_of_group(group: str, source: ToolSource) -> dict[str, Tool[Any]]:
    if group in OWN_GROUPS:
        return OWN_GROUPS[group]()
    return _upstream_tools(server_for_code_name(group, _server_names(source)), source)


def _preferred_names(group: str, known: Mapping[str, Tool[Any]], names: Toolset) -> list[str]:
    """Returns the names of all tools of a group; a tool with two names appears once, by the scheme of `names`."""
    from toolyard.tools.execution_tools import BASH, EXECUTE_BASH

    if group == FILESYSTEM:
        return [name for name in known if name in tools_of(names)]
    other = (EXECUTE_BASH if names is Toolset.CLAUDE else BASH).name
    return [name for name in known if group != CODE_EXECUTION or name != other]


def _code_tools() -> dict[str, Tool[Any]]:
    from toolyard.tools.execution_tools import BASH, EXECUTION_TOOLS

    return {tool.name: tool for tool in (*EXECUTION_TOOLS, BASH)}


def _file_tools() -> dict[str, Tool[Any]]:
    from toolyard.tools.claude_toolset import CLAUDE_TOOLS
    from toolyard.tools.reference.toolset import REFERENCE_TOOLS

    running = _code_tools()
    claude = {tool.name: tool for tool in CLAUDE_TOOLS if tool.name not in running}
    return {**claude, **{tool.name: tool for tool in REFERENCE_TOOLS}}


OWN_GROUPS: Final[Mapping[str, Callable[[], dict[str, Tool[Any]]]]] = {
    FILESYSTEM: _file_tools,
    CODE_EXECUTION: _code_tools,
}


def _upstream_tools(group: str, source: ToolSource) -> dict[str, Tool[Any]]:
    from toolyard.tools.upstream_proxy import upstream_tool

    servers = _server_names(source)
    if group in servers:
        return {tool.schema.name: upstream_tool(group, tool.schema) for tool in source.catalog.tools(group)}
    if group in source.custom.groups:
        return {
            schema.name.removeprefix(f"{group}."): upstream_tool(group, schema, is_custom=True)
            for schema in source.custom.groups[group]
        }
    named = {code_name(server, folder) for server, folder in folder_names(sorted(servers)).items()}
    known = {FILESYSTEM, CODE_EXECUTION, *named, *source.custom.groups}
    what = f'in_context_tools names "{group}", which is not a group of tools.'
    raise ConfigError(what, hint=did_you_mean(group, known))


def _server_names(source: ToolSource) -> Collection[str]:
    return {entry.name for entry in source.resolved_servers.entries}
