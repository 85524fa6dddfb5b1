"""What is particular to whom a Yard is served, beyond what the workspace's policy allows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolyard.core.calls import Asker, Result

APPROVE = "approve"
"""The tool that a client asks before it calls one of ours. Served only to one that does."""

LISTED = "toolyard.listed"
"""In the scope of a request: a list, to which something is added when the tools were listed for it."""


@dataclass(frozen=True, slots=True)
class Terms:
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tools that go by another name for this client: ours, and the one it sees."""
    ask: Asker | None = None
    """Who is asked in place of the client."""
    approve: Callable[[Mapping[str, Any]], Awaitable[Result]] | None = None
    """Answers a client that asks by itself whether a tool may be called."""
    on_result: Callable[[str, Mapping[str, Any], Result, float], None] | None = None
    """Gets each result before this client does: the tool, its arguments, the result, the seconds that it took."""

    def served(self, tool: str) -> str:
        return self.names.get(tool, tool)

    def ours(self, served: str) -> str:
        """The tool that a client means."""
        for tool, name in self.names.items():
            if name == served:
                return tool
        return served


TERMS = Terms()
"""Of everybody that nothing was agreed with."""
