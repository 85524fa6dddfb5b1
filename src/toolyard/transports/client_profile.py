"""Settings of one client of a Yard, in addition to the workspace's policy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolyard.core.calls import ApprovalCallback, Result

APPROVE_TOOL_NAME = "approve"
"""The tool that a client calls for permission. Served only to clients that do."""

LISTED_SCOPE_KEY = "toolyard.listed"
"""Scope key of a list to which an item is added when the tools were listed for the request."""


@dataclass(frozen=True, slots=True)
class ClientProfile:
    """How tools are served to one client."""

    served_names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tools with another name for this client: our name, and the name it sees."""
    ask: ApprovalCallback | None = None
    """Approval callback in place of the client's."""
    approve: Callable[[Mapping[str, Any]], Awaitable[Result]] | None = None
    """Answers a client that asks whether a tool may be called."""
    on_result: Callable[[str, Mapping[str, Any], Result, float], None] | None = None
    """Called with each result before the client gets it: tool, arguments, result, seconds."""

    def served_name(self, tool: str) -> str:
        """Returns the client's name of one of our tools."""
        return self.served_names.get(tool, tool)

    def tool_name(self, served: str) -> str:
        """Returns our name of a tool that the client names."""
        for tool, name in self.served_names.items():
            if name == served:
                return tool
        return served


DEFAULT_PROFILE = ClientProfile()
"""The profile of ordinary clients."""
