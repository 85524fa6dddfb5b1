from __future__ import annotations
from typing import NotRequired, TypedDict
from toolyard_runtime.tool import tool

class CreateDirectoryResult(TypedDict):
    content: str
    note: NotRequired[str]

@tool("filesystem", "create_directory")
async def create_directory(path: str) -> CreateDirectoryResult:
    """Make a folder with its parents. Nothing happens when it is there already.

    Args:
        path: Absolute, or relative to the workspace
    """
    ...
