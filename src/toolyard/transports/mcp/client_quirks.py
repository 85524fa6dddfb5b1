"""Workarounds for specific clients, recognized by the name they send."""

from __future__ import annotations

# Claude Code and Codex show their models the structured content instead of the text (but keep images), so numbered
# lines would arrive as one escaped JSON string. Qwen Code shows both from 0.24 on. All three get only the text.
# Gemini CLI selects the text itself. tests/e2e covers this.
_PREFER_TEXT = frozenset({"claude-code", "codex-mcp-client"})
_PREFER_TEXT_PREFIX = "qwen-cli-mcp-client-"
"""Followed by the server's name in that client's settings."""


def wants_structured(client: str | None) -> bool:
    """Whether a client gets the structured content of results; None is a client without a name."""
    return client is None or not (client in _PREFER_TEXT or client.startswith(_PREFER_TEXT_PREFIX))
