"""What is particular to some clients, found by the name they give themselves."""

from __future__ import annotations

# Claude Code and Codex show their models the structured content in place of the text (pictures they keep): numbered
# lines would arrive as one escaped JSON string. Qwen Code shows both from 0.24 on. They get the readable half alone.
# Gemini CLI takes the readable half by itself. tests/e2e shows all of it.
_PREFER_TEXT = frozenset({"claude-code", "codex-mcp-client"})
_PREFER_TEXT_PREFIX = "qwen-cli-mcp-client-"
"""What follows is the name of the server in that client's settings."""


def wants_structured(client: str | None) -> bool:
    """Whether the client of this name gets the structured half of results; None: it has not said who it is."""
    return client is None or not (client in _PREFER_TEXT or client.startswith(_PREFER_TEXT_PREFIX))
