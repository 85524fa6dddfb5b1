"""Decides which tools a yard serves: its toolset, or what the configuration selects.

With `in_context_tools` the set changes while the yard is open, when servers are added, removed or report changed
tools.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolyard.app.toolsets import is_served, tools_of
from toolyard.config.agents import select_agent
from toolyard.core.errors import ConfigError
from toolyard.dispatch.tool import Tool

if TYPE_CHECKING:
    from toolyard.app.yard_options import YardOptions
    from toolyard.codemode.service import CodeMode
    from toolyard.dispatch.dispatcher import CallDispatcher


class ServedTools:
    """The tools that one yard serves."""

    def __init__(self, options: YardOptions, codemode: CodeMode) -> None:
        self._options = options
        self._codemode = codemode
        self._agent = select_agent(options.config, options.agent)
        self._refresh_lock = threading.Lock()
        self._generation = 0

    @property
    def can_change(self) -> bool:
        """Whether clients need a notification when the tools change."""
        options = self._options
        return (
            options.tool_provider is None
            and options.injection is None
            and bool(options.config.toolyard.in_context_tools)
        )

    def tools(self) -> dict[str, Tool[Any]]:
        """Returns the initial tools by name. Raises ConfigError for a selection that cannot be served."""
        options = self._options
        if options.tool_provider is not None:
            return dict(options.tool_provider.tools)
        if options.injection is not None:
            from toolyard.app.execution_mode import injected_tools

            return injected_tools(options.injection, options.config, options.agent, self._codemode)
        if self.can_change:
            return self._in_context_tools(options.config.toolyard.in_context_tools)
        tools = tools_of(options.toolset)
        if self._agent is None:
            return tools
        allowed, excluded = self._agent.backend.allowed_tools, self._agent.backend.exclude_tools
        return {name: tool for name, tool in tools.items() if is_served(name, allowed, excluded)}

    def refresh(self, dispatch: CallDispatcher) -> bool:
        """Updates the tools of `dispatch`. Returns True if a client would see a different list.

        A selection that cannot be served, because two tools would share a name, changes nothing.
        """
        if not self.can_change:
            return False
        with self._refresh_lock:
            generation = self._codemode.refresh()
            if generation == self._generation:
                return False
            self._generation = generation
            from toolyard.app.tool_selection import available_choices

            try:
                tools = self._in_context_tools(available_choices(self._codemode.in_context_choices, self._codemode))
            except ConfigError:
                return False
            if _client_listing(tools) == _client_listing(dispatch.tools):
                return False
            dispatch.tools = tools
            return True

    def _in_context_tools(self, choices: Mapping[str, Any]) -> dict[str, Tool[Any]]:
        from toolyard.app.tool_selection import is_for_agent, tools_in_context

        tools = tools_in_context(self._options.toolset, choices, self._codemode)
        return {name: tool for name, tool in tools.items() if is_for_agent(self._agent, tool, self._codemode)}


def _client_listing(tools: Mapping[str, Tool[Any]]) -> list[tuple[Any, ...]]:
    """Returns what a client sees of each tool, in order."""
    return [
        (tool.name, tool.description, tool.input_schema, tool.output, tool.read_only, tool.destructive)
        for tool in tools.values()
    ]
