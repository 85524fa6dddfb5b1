"""Agent CLIs at work: `async for message in drive("gemini", "Fix the tests", workspace="project")`.

Each run gets our MCP server with a token of its own, a private folder for the CLI's settings, and processes that end
with it. What it says comes as the messages of `messages.py`, whichever CLI it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolyard.drivers.api import drive
from toolyard.drivers.messages import (
    Fault,
    Finished,
    ImageData,
    Message,
    ResultStatus,
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

if TYPE_CHECKING:
    from toolyard.drivers.mcp_host import Host

__all__ = [
    "Fault",
    "Finished",
    "Host",
    "ImageData",
    "Message",
    "ResultStatus",
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


def __getattr__(name: str) -> object:
    if name == "Host":
        from toolyard.drivers.mcp_host import Host  # a server: who only reads messages does not wait for it

        return Host
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
