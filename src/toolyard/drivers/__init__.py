"""Drives agent CLIs: `async for message in drive("gemini", "Fix the tests", workspace="project")`.

Each run gets our MCP server with its own token, a private folder for the CLI's settings, and processes that end with
it. Its output arrives as the messages of `messages.py`, the same for every CLI.
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
        from toolyard.drivers.mcp_host import Host  # imports a server, which readers of messages do not need

        return Host
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
