"""What is particular to whom a Yard is served, beyond what the workspace's policy allows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolyard.core.calls import ApprovalCallback, Result

APPROVE_TOOL_NAME = "approve"
"""The tool that a client asks before it calls one of ours. Served only to one that does."""

LISTED_SCOPE_KEY = "toolyard.listed"
"""In the scope of a request: a list, to which something is added when the tools were listed for it."""


@dataclass(frozen=True, slots=True)
class ClientProfile:
    served_names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tools that go by another name for this client: ours, and the one it sees."""
    ask: ApprovalCallback | None = None
    """Who is asked in place of the client."""
    approve: Callable[[Mapping[str, Any]], Awaitable[Result]] | None = None
    """Answers a client that asks by itself whether a tool may be called."""
    on_result: Callable[[str, Mapping[str, Any], Result, float], None] | None = None
    """Gets each result before this client does: the tool, its arguments, the result, the seconds that it took."""

    def served_name(self, tool: str) -> str:
        return self.served_names.get(tool, tool)

    def tool_name(self, served: str) -> str:
        """The tool that a client means."""
        for tool, name in self.served_names.items():
            if name == served:
                return tool
        return served


DEFAULT_PROFILE = ClientProfile()
"""Of everybody that nothing was agreed with."""
