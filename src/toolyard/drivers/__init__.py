"""Agent CLIs at work: `async for message in drive("gemini", "Fix the tests", workspace="project")`.

Each run gets our MCP server with a token of its own, a private folder for the CLI's settings, and processes that end
with it. What it says comes as the messages of `messages.py`, whichever CLI it is.
"""

from __future__ import annotations

from toolyard.drivers.messages import (
    Fault,
    Finished,
    Message,
    SessionStarted,
    Status,
    TextDelta,
    Tokens,
    ToolCall,
    ToolResult,
    Usage,
    as_json,
    from_json,
)
from toolyard.drivers.start import drive

__all__ = [
    "Fault",
    "Finished",
    "Message",
    "SessionStarted",
    "Status",
    "TextDelta",
    "Tokens",
    "ToolCall",
    "ToolResult",
    "Usage",
    "as_json",
    "drive",
    "from_json",
]
