"""What is particular to some clients, found by the name they give themselves."""

from __future__ import annotations

from mcp_types import Implementation

# Claude Code shows its model the structured content in place of the text and the images: numbered lines would arrive
# as one escaped JSON string, and pictures not at all. It gets the readable half alone.
_PREFER_TEXT = frozenset({"claude-code"})


def wants_structured(client: Implementation | None) -> bool:
    return client is None or client.name not in _PREFER_TEXT
