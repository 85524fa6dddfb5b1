from __future__ import annotations
from typing import NotRequired, TypedDict
from toolyard_runtime.tool import tool

class ReadFileResult(TypedDict):
    content: str
    note: NotRequired[str]

@tool("filesystem", "read_file")
async def read_file(path: str, *, head: int = ..., tail: int = ...) -> ReadFileResult:
    """The same as read_text_file, under its old name.

    Args:
        path: Absolute, or relative to the workspace
        head: Only the first N lines (at least 0)
        tail: Only the last N lines (at least 0)
    """
    ...
