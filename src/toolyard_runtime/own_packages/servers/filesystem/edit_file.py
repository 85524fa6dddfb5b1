from __future__ import annotations
from typing import NotRequired, TypedDict
from toolyard_runtime.tool import tool

class EditItem(TypedDict):
    oldText: str  # Exact text that occurs once
    newText: str

class EditFileResult(TypedDict):
    content: str
    note: NotRequired[str]

@tool("filesystem", "edit_file")
async def edit_file(path: str, edits: list[EditItem], *, dryRun: bool = ...) -> EditFileResult:
    """Replace texts in a file, each on the result of the one before: all of them or none. Answers with a git-style diff; dryRun only shows it.

    Args:
        path: Absolute, or relative to the workspace
        edits: (at least 1 items)
        dryRun: Only show the diff
    """
    ...
