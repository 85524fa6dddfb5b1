from __future__ import annotations
from typing import Literal, NotRequired, TypedDict
from toolyard_runtime.tool import tool

class ListDirectoryWithSizesResult(TypedDict):
    content: str
    note: NotRequired[str]

@tool("filesystem", "list_directory_with_sizes")
async def list_directory_with_sizes(
    path: str,
    *,
    sortBy: Literal["name", "size"] = ...,
) -> ListDirectoryWithSizesResult:
    """List what a folder holds with sizes and their sum.

    Args:
        path: Absolute, or relative to the workspace
    """
    ...
