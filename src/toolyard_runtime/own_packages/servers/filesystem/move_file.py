from __future__ import annotations
from typing import NotRequired, TypedDict
from toolyard_runtime.tool import tool

class MoveFileResult(TypedDict):
    content: str
    note: NotRequired[str]

@tool("filesystem", "move_file")
async def move_file(source: str, destination: str) -> MoveFileResult:
    """Move or rename a file or folder. Never replaces anything.

    Args:
        source: Absolute, or relative to the workspace
        destination: Absolute, or relative to the workspace
    """
    ...
