from __future__ import annotations
from typing import NotRequired, TypedDict
from toolyard_runtime.tool import tool

class ListDirectoryResult(TypedDict):
    content: str
    note: NotRequired[str]

@tool("filesystem", "list_directory")
async def list_directory(path: str) -> ListDirectoryResult:
    """List what a folder holds, marked [FILE] or [DIR].

    Args:
        path: Absolute, or relative to the workspace
    """
    ...
