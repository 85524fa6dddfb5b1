"""Another name of `toolyard_runtime`'s calls, for code that was written for it."""

from toolyard_runtime.massgen import (
    call_custom_tool,
    call_custom_tool_sync,
    call_mcp_tool,
    call_mcp_tool_sync,
    save_skill,
    semantic_search,
)

__all__ = [
    "call_custom_tool",
    "call_custom_tool_sync",
    "call_mcp_tool",
    "call_mcp_tool_sync",
    "save_skill",
    "semantic_search",
]
