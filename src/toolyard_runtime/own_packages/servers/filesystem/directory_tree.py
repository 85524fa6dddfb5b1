from __future__ import annotations
from typing import NotRequired, TypedDict
from toolyard_runtime.tool import tool

class DirectoryTreeResult(TypedDict):
    content: str
    note: NotRequired[str]

@tool("filesystem", "directory_tree")
async def directory_tree(path: str, *, excludePatterns: list[str] = ...) -> DirectoryTreeResult:
    """A folder and everything below as JSON: name, type, and children for folders. .git is not entered.

    Args:
        path: Absolute, or relative to the workspace
        excludePatterns: Globs to leave out (at most 100 items)
    """
    ...
