from __future__ import annotations
from typing import NotRequired, TypedDict
from toolyard_runtime.tool import tool

class ListAllowedDirectoriesResult(TypedDict):
    content: str
    note: NotRequired[str]

@tool("filesystem", "list_allowed_directories")
async def list_allowed_directories() -> ListAllowedDirectoriesResult:
    """The folders that can be used here, with everything below them."""
    ...
