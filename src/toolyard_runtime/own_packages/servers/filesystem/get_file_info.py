from __future__ import annotations
from typing import NotRequired, TypedDict
from toolyard_runtime.tool import tool

class GetFileInfoResult(TypedDict):
    content: str
    note: NotRequired[str]

@tool("filesystem", "get_file_info")
async def get_file_info(path: str) -> GetFileInfoResult:
    """Size, times, type and permissions of a file or folder.

    Args:
        path: Absolute, or relative to the workspace
    """
    ...
