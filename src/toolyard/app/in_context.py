"""Which tools a client is served: the set it asked for, or the groups that `in_context_tools` names.

A group is `filesystem` (our file tools, by the reference server's names or Claude Code's), `code_execution`, a server
or a group of custom tools. What is not named stays a file, and search_tools finds it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from toolyard.app.tool import Tool
from toolyard.app.tools.finding import SEARCH_TOOLS
from toolyard.config.suggest import did_you_mean
from toolyard.core.errors import ConfigError

if TYPE_CHECKING:
    from toolyard.app.codemode.codemode import CodeMode
    from toolyard.codemode.catalog import KnownTool
    from toolyard.codemode.custom import CustomTools
    from toolyard.config.authorization import Authorization
    from toolyard.config.server_registry import ResolvedServers

Choice = Literal["*"] | tuple[str, ...]
FILESYSTEM, CODE = "filesystem", "code_execution"


class KnownTools(Protocol):
    """The tools of servers, as the catalog has them."""

    def tools(self, server: str) -> Iterable[KnownTool]: ...


@dataclass(frozen=True, slots=True)
class Offline:
    """What is known of somebody else's tools, and which of them an agent may call, without an open workspace."""

    resolved: ResolvedServers
    catalog: KnownTools
    custom: CustomTools
    authorization: Authorization
    custom_authorization: Authorization


ToolSource: TypeAlias = "CodeMode | Offline"


def in_context_tools(choices: Mapping[str, Choice], mode: ToolSource) -> dict[str, Tool[Any]]:
    """The tools of these groups, and search_tools for the rest.

    Raises ConfigError for a name that is nobody's, or that two tools would have.
    """
    tools: dict[str, Tool[Any]] = {SEARCH_TOOLS.name: SEARCH_TOOLS}
    owners = {SEARCH_TOOLS.name: f'"{SEARCH_TOOLS.name}"'}
    for group, choice in choices.items():
        known = _group(group, mode)
        for name in known if choice == "*" else choice:
            if name not in known:
                raise ConfigError(
                    f'in_context_tools names "{name}", which is no tool of "{group}".',
                    hint=did_you_mean(name, known) if known else f"Run `toolyard sync {group}` first.",
                )
            served, this = known[name].name, f'"{name}" of "{group}"'
            other = owners.setdefault(served, this)
            if other != this:
                what = f'in_context_tools names {other} and {this}, which would both be served as "{served}".'
                raise ConfigError(what, hint="Leave one of them out: search_tools still finds it.")
            tools[served] = known[name]
    return tools


def _group(group: str, mode: ToolSource) -> dict[str, Tool[Any]]:
    if group == FILESYSTEM and FILESYSTEM not in _servers(mode):
        return _files()
    if group == CODE:
        from toolyard.app.tools.running import RUNNING_TOOLS

        return {tool.name: tool for tool in RUNNING_TOOLS}
    return _passed_on(group, mode)


def _files() -> dict[str, Tool[Any]]:
    from toolyard.app.tools.claude import CLAUDE_TOOLS
    from toolyard.app.tools.reference import REFERENCE_TOOLS
    from toolyard.app.tools.running import RUNNING_TOOLS

    running = {tool.name for tool in RUNNING_TOOLS} | {"Bash"}
    claude = {tool.name: tool for tool in CLAUDE_TOOLS if tool.name not in running}
    return {**claude, **{tool.name: tool for tool in REFERENCE_TOOLS}}


def _passed_on(group: str, mode: ToolSource) -> dict[str, Tool[Any]]:
    from toolyard.app.tools.passed_on import passed_on

    servers = _servers(mode)
    if group in servers:
        return {tool.schema.name: passed_on(group, tool.schema) for tool in mode.catalog.tools(group)}
    if group in mode.custom.groups:
        return {
            schema.name.removeprefix(f"{group}."): passed_on(group, schema, is_custom=True)
            for schema in mode.custom.groups[group]
        }
    known = {FILESYSTEM, CODE, *servers, *mode.custom.groups}
    what = f'in_context_tools names "{group}", which is no group of tools.'
    raise ConfigError(what, hint=did_you_mean(group, known))


def _servers(mode: ToolSource) -> Collection[str]:
    return {entry.name for entry in mode.resolved.entries}
