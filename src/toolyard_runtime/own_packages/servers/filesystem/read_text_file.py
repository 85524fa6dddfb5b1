from __future__ import annotations
from typing import NotRequired, TypedDict
from toolyard_runtime.tool import tool

class ReadTextFileResult(TypedDict):
    content: str
    note: NotRequired[str]

@tool("filesystem", "read_text_file")
async def read_text_file(path: str, *, head: int = ..., tail: int = ...) -> ReadTextFileResult:
    """Read a text file: all of it, or its first (head) or last (tail) lines.

    Args:
        path: Absolute, or relative to the workspace
        head: Only the first N lines (at least 0)
        tail: Only the last N lines (at least 0)
    """
    ...
