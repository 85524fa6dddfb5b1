from __future__ import annotations
from typing import NotRequired, TypedDict
from toolyard_runtime.tool import tool

class WriteFileResult(TypedDict):
    content: str
    note: NotRequired[str]

@tool("filesystem", "write_file")
async def write_file(path: str, content: str) -> WriteFileResult:
    """Create a file or replace all of it, atomically. Refused if it changed since you last read it.

    Args:
        path: Absolute, or relative to the workspace
    """
    ...
