"""Finds the tool that a user means, by any of its names.

time get_current_time           a server and its tool
time.get_current_time           the same in one word; also with `/`, and `mcp__time__get_current_time`
servers.time.get_current_time   as code imports it; also the file, `servers/time/get_current_time.py`
filesystem.write_file           one of Toolyard's own file tools
tools.web.screenshot            a custom tool; `web.screenshot` and `web screenshot` where no server has that name
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from toolyard.app.own_tool_files import OWN_TOOL_NAMES
from toolyard.codemode.file_writer import WrittenServer
from toolyard.codemode.files import OWN_SERVER, CompiledTool, code_name, compile_group, folder_names
from toolyard.codemode.generated_folder import SERVERS, TOOLS, generated_path
from toolyard.config.suggestions import SIMILARITY_CUTOFF
from toolyard.core.errors import ValidationError

if TYPE_CHECKING:
    from toolyard.codemode.service import CodeMode

_MAX_SUGGESTIONS = 3
_LONGEST_WORD = 300
"""Maximum characters of an unknown name, because comparing takes longer for long names."""
_SUFFIX = ".py"
_MCP = "mcp__"


@dataclass(frozen=True, slots=True)
class NamedTool:
    """A tool that the user named."""

    server: str
    """The server, or the group of custom tools."""
    tool: str
    is_custom: bool = False
    is_own: bool = False
    """Whether it is one of Toolyard's own file tools."""
    display_server: str = ""
    """The server's name in code, if it differs."""

    def __str__(self) -> str:
        server = self.display_server or self.server
        return f"{TOOLS}.{server}.{self.tool}" if self.is_custom else f"{server}.{self.tool}"


class ToolNames:
    """The tool names at one moment: create a new instance after a sync."""

    def __init__(self, mode: CodeMode, *, includes_unconfigured: bool = False) -> None:
        """`includes_unconfigured` adds servers of the catalog that this configuration does not name."""
        self._mode = mode
        self._includes_unconfigured = includes_unconfigured

    @cached_property
    def _server_names(self) -> list[str]:
        names = [entry.name for entry in self._mode.resolved_servers.entries]
        others = self._mode.catalog.tool_counts().keys() - set(names) if self._includes_unconfigured else ()
        return [*names, *sorted(others)]

    @cached_property
    def servers(self) -> Mapping[str, Sequence[CompiledTool]]:
        """The written tools of each server that has answered."""
        answered = set(self._server_names) & self._mode.catalog.tool_counts().keys()
        known = self._mode.catalog.servers()
        return {
            server.name: WrittenServer.from_json(server.written).tools for server in known if server.name in answered
        }

    @cached_property
    def groups(self) -> Mapping[str, Sequence[CompiledTool]]:
        """The tools of each group of custom tools."""
        groups = self._mode.custom.unwrapped_groups
        return {group: compile_group(group, schemas).tools for group, schemas in groups.items()}

    @cached_property
    def _server_spellings(self) -> Mapping[str, str]:
        """Every spelling of a server's name, mapped to the name."""
        folders = folder_names(self._server_names)
        by_folder = {folder: name for name, folder in folders.items()}
        return by_folder | {code_name(name, folder): name for name, folder in folders.items()}

    def all(self) -> Iterator[tuple[NamedTool, CompiledTool]]:
        """Yields all tools."""
        for server, tools in self.servers.items():
            yield from ((self._server_tool(server, tool.name), tool) for tool in tools)
        for group, tools in self.groups.items():
            for tool in tools:
                yield NamedTool(group, tool.name.removeprefix(f"{group}."), is_custom=True), tool

    def _server_tool(self, server: str, tool: str) -> NamedTool:
        return NamedTool(
            server, tool, display_server=self._mode.server_folders[server] if server == OWN_SERVER else ""
        )

    def file_path(self, tool: CompiledTool) -> str:
        """Returns the actual path of a tool's file: a workspace may have its own `servers/`."""
        root, _, rest = tool.path.partition("/")
        return f"{generated_path(self._mode.root.path, root, self._mode.deps.state)}/{rest}"

    def unsynced_server(self, words: Sequence[str]) -> str | None:
        """Returns the configured server that is meant but whose tools are unknown; None otherwise."""
        for server, _ in self._readings(words):
            name = self._server_spellings.get(server)
            if name is not None and name not in self.servers:
                return name
        return None

    def find(self, words: Sequence[str]) -> NamedTool:
        """Returns the tool that is meant. Raises ValidationError with suggestions if there is none."""
        custom_only = words[0].startswith((f"{TOOLS}.", f"{TOOLS}/"))
        for server, tool in self._readings(words):
            if not custom_only and server == OWN_SERVER and tool in OWN_TOOL_NAMES:
                return NamedTool(OWN_SERVER, tool, is_own=True)
            if not custom_only and (name := self._server_spellings.get(server)) is not None:
                found = _tool_named(self.servers.get(name, ()), tool)
                if found is not None:
                    return self._server_tool(name, found.name)
                if tool in self._mode.catalog.tool_names(name):  # discovered by a call, not yet written
                    return self._server_tool(name, tool)
            found = _tool_named(self.groups.get(server, ()), f"{server}.{tool}", tool)
            if found is not None:
                return NamedTool(server, found.name.removeprefix(f"{server}."), is_custom=True)
        raise self._unknown_tool_error(words)

    def _readings(self, words: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yields every way to split the words into server and tool, the longest server name first."""
        if len(words) > 1:
            yield words[0].removeprefix(f"{SERVERS}.").removeprefix(f"{TOOLS}."), words[1]
            return
        word = words[0]
        if word.startswith(_MCP):
            server, _, tool = word.removeprefix(_MCP).partition("__")
            yield server, tool
            return
        if word.endswith(_SUFFIX):
            word = word.removesuffix(_SUFFIX)
        for folder in (SERVERS, TOOLS):
            for sign in "./":
                word = word.removeprefix(f"{folder}{sign}")
        for cut in range(len(word) - 1, 0, -1):
            if word[cut] in "./":
                yield word[:cut], word[cut + 1 :]

    def _unknown_tool_error(self, words: Sequence[str]) -> ValidationError:
        wanted = ".".join(words)[:_LONGEST_WORD]
        for word, tool in self._readings(words):
            server = self._server_spellings.get(word)
            if server is not None:
                own = self._mode.catalog.tool_names(server)
                near = [f"{word}.{name}" for name in _nearest(tool[:_LONGEST_WORD], own)]
                hint = _did_you_mean(near) if near else f"It has {_list_some(own)}." if own else "It has none."
                return ValidationError.of("tool", f"{server} has no tool {tool[:_LONGEST_WORD]!r}", hint=hint)
        named = [str(tool) for tool, _ in self.all()]
        near = _nearest(wanted, named) or [name for name in named if name.endswith(f".{wanted}")][:_MAX_SUGGESTIONS]
        hint = _did_you_mean(near) if near else "List the tools with `toolyard tools list`."
        return ValidationError.of("tool", f"there is no tool {wanted}", hint=hint)


def _tool_named(tools: Sequence[CompiledTool], *names: str) -> CompiledTool | None:
    """Returns the tool with one of these names; the server's own name takes precedence over file names."""
    exact = next((tool for tool in tools if tool.name in names), None)
    return exact or next((tool for tool in tools if tool.module in names or tool.function in names), None)


def _nearest(wanted: str, names: Sequence[str]) -> list[str]:
    tails = [name for name in names if name.rpartition(".")[2] == wanted]
    return tails[:_MAX_SUGGESTIONS] or difflib.get_close_matches(
        wanted, names, n=_MAX_SUGGESTIONS, cutoff=SIMILARITY_CUTOFF
    )


def _did_you_mean(names: Sequence[str]) -> str:
    *most, last = names
    return f"Did you mean {', '.join(most)} or {last}?" if most else f"Did you mean {last}?"


def _list_some(names: Sequence[str]) -> str:
    shown = names[: 2 * _MAX_SUGGESTIONS]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")
