from __future__ import annotations
from typing import NotRequired, TypedDict
from toolyard_runtime.tool import tool

class SearchFilesResult(TypedDict):
    content: str
    note: NotRequired[str]

@tool("filesystem", "search_files")
async def search_files(path: str, pattern: str, *, excludePatterns: list[str] = ...) -> SearchFilesResult:
    """Find files and folders below a folder by name pattern; answers with full paths.

    Args:
        path: Absolute, or relative to the workspace
        pattern: From path on: "*.py" there, "**/*.py" at any depth
        excludePatterns: Globs to leave out (at most 100 items)
    """
    ...
