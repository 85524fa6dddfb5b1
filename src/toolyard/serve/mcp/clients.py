"""What is particular to some clients, found by the name they give themselves."""

from __future__ import annotations

# Claude Code shows its model the structured content in place of the text (pictures it keeps): numbered lines would
# arrive as one escaped JSON string. It gets the readable half alone. Gemini CLI takes the readable half by itself.
# tests/e2e shows both.
_PREFER_TEXT = frozenset({"claude-code"})


def wants_structured(client: str | None) -> bool:
    """Whether the client of this name gets the structured half of results; None: it has not said who it is."""
    return client not in _PREFER_TEXT
