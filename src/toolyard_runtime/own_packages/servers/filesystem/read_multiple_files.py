from __future__ import annotations
from typing import NotRequired, TypedDict
from toolyard_runtime.tool import tool

class ReadMultipleFilesResult(TypedDict):
    content: str
    note: NotRequired[str]

@tool("filesystem", "read_multiple_files")
async def read_multiple_files(paths: list[str]) -> ReadMultipleFilesResult:
    """Read several text files at once. One that cannot be read does not keep the others from being read.

    Args:
        paths: (at least 1 items)
    """
    ...
