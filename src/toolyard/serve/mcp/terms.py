"""What is particular to whom a Yard is served, beyond what the workspace's policy allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolyard.core.calls import Asker

LISTED = "toolyard.listed"
"""In the scope of a request: a list, to which something is added when the tools were listed for it."""


@dataclass(frozen=True, slots=True)
class Terms:
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tools that go by another name for this client: ours, and the one it sees."""
    ask: Asker | None = None
    """Who is asked in place of the client."""

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
