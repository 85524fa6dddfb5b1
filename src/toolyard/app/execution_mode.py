"""Selects the tools that an agent's model gets, according to the configuration's `execution_mode`.

`filesystem_first`: a few essential tools, or the groups of `in_context_tools`; every other tool is a file that code
calls. `context_based`: Claude Code's file tools if the agent works on files, every tool of every server that it may
use, and the custom tools.

`tool_injection_for` needs only the configuration. `injected_tools` needs the catalog: servers that were never asked
have no tools in it (`app.ensure_synced` asks them).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from toolyard.app.tool_selection import CODE_EXECUTION, FILESYSTEM, ToolSource, in_context_tools, is_for_agent
from toolyard.app.toolsets import Toolset, tools_of
from toolyard.config.agents import select_agent
from toolyard.config.execution_mode import check_execution_mode
from toolyard.dispatch.tool import Tool

if TYPE_CHECKING:
    from toolyard.config.models import Agent, Config
    from toolyard.tools.upstream_proxy import UpstreamTool

FILES_FIRST: Final = "filesystem_first"
ESSENTIAL_FILE_TOOLS: Final = (
    *("read_file", "write_file", "list_directory", "create_directory", "move_file", "get_file_info"),
)
ESSENTIAL_CODE_TOOLS: Final = ("execute_python", "execute_bash")
MAX_ESSENTIAL_TOKENS: Final = 3_500
"""Token budget of the essential tools: names, descriptions and schemas together."""
_MAX_NAME_CHARS = 64
_HASH_BYTES = 4


@dataclass(frozen=True, slots=True)
class ToolInjection:
    """How the tools of one agent are selected."""

    files_first: bool
    has_files: bool
    """Whether the agent works on files at all; if not, it gets no file tools."""
    notices: tuple[str, ...] = ()
    """Warnings about settings that have no effect."""

    @property
    def has_code_mode(self) -> bool:
        """Whether tool files, skills and memory are available to the agent's code."""
        return self.files_first


def tool_injection_for(config: Config, agent: str | None) -> ToolInjection:
    """Returns the selection for an agent. Raises ConfigError for settings that contradict each other."""
    section = config.toolyard
    chosen = select_agent(config, agent)
    if section.execution_mode != FILES_FIRST:
        ignored = (
            "`in_context_tools` has no effect with `execution_mode: context_based`: every tool is in context.",
        )
        return ToolInjection(
            files_first=False,
            has_files=_has_files(config, chosen),
            notices=ignored if section.in_context_tools else (),
        )
    check_execution_mode(config)
    return ToolInjection(files_first=True, has_files=True)


def _has_files(config: Config, agent: Agent | None) -> bool:
    if agent is None or "workspace" in config.toolyard.model_fields_set:
        return True
    backend = agent.backend
    is_cli = backend.kind is not None and bool(backend.kind.driver)
    return bool(backend.cwd or backend.permission_mode or is_cli)


def injected_tools(
    injection: ToolInjection, config: Config, agent: str | None, source: ToolSource
) -> dict[str, Tool[Any]]:
    """Returns the tools by the names that the model sees. Raises ConfigError for unknown groups."""
    chosen = select_agent(config, agent)
    if injection.files_first:
        essential = {FILESYSTEM: ESSENTIAL_FILE_TOOLS, CODE_EXECUTION: ESSENTIAL_CODE_TOOLS}
        tools = in_context_tools(config.toolyard.in_context_tools or essential, source)
        return _without_background({name: tool for name, tool in tools.items() if is_for_agent(chosen, tool, source)})
    own = tools_of(Toolset.CLAUDE) if injection.has_files else {}
    served = {name: tool for name, tool in own.items() if is_for_agent(chosen, tool, source)}
    return {**served, **_with_unique_names(_upstream_tools(source), served)}


def _without_background(tools: dict[str, Tool[Any]]) -> dict[str, Tool[Any]]:
    """Replaces execute_bash by its foreground variant if the agent cannot read background output."""
    from toolyard.tools.execution_tools import BASH_OUTPUT, EXECUTE_BASH, EXECUTE_BASH_FOREGROUND

    if BASH_OUTPUT.name in tools or EXECUTE_BASH.name not in tools:
        return tools
    return {**tools, EXECUTE_BASH.name: EXECUTE_BASH_FOREGROUND}


def _upstream_tools(source: ToolSource) -> Iterator[UpstreamTool]:
    """Yields the server tools and custom tools that the agent may call, in the order of the configuration."""
    from toolyard.tools.upstream_proxy import upstream_tool

    for entry in source.resolved_servers.entries:
        if source.authorization.may_use(entry.name):
            for known in source.catalog.tools(entry.name):
                if source.authorization.may_call(entry.name, known.schema.name):
                    yield upstream_tool(entry.name, known.schema)
    for group, schemas in source.custom.groups.items():
        for schema in schemas:
            if source.custom_authorization.may_call(group, schema.name.removeprefix(f"{group}.")):
                yield upstream_tool(group, schema, is_custom=True)


def _with_unique_names(tools: Iterable[UpstreamTool], taken: Iterable[str]) -> dict[str, Tool[Any]]:
    """Returns the tools by unique names that every provider accepts: a letter first, at most 64 characters."""
    unique: dict[str, Tool[Any]] = {}
    names = set(taken)
    for tool in tools:
        name = tool.name if tool.name[0].isalpha() or tool.name[0] == "_" else f"_{tool.name}"[:_MAX_NAME_CHARS]
        if name in names:
            # Derived from the tool alone, so that it stays the same in later rounds: a model may remember it.
            identity = f"{'tools' if tool.is_custom else 'servers'}\0{tool.server}\0{tool.upstream_name}"
            digest = hashlib.blake2b(identity.encode("utf-8", "replace"), digest_size=_HASH_BYTES).hexdigest()
            name = f"{name[: _MAX_NAME_CHARS - len(digest) - 1]}_{digest}"
        names.add(name)
        unique[name] = tool if name == tool.name else replace(tool, name=name)
    return unique
