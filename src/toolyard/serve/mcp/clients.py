"""What is particular to some clients, found by the name they give themselves."""

from __future__ import annotations

# Claude Code and Codex show their models the structured content in place of the text (pictures they keep): numbered
# lines would arrive as one escaped JSON string. They get the readable half alone. Gemini CLI takes the readable half
# by itself. tests/e2e shows all of it.
_PREFER_TEXT = frozenset({"claude-code", "codex-mcp-client"})


def wants_structured(client: str | None) -> bool:
    """Whether the client of this name gets the structured half of results; None: it has not said who it is."""
    return client not in _PREFER_TEXT
