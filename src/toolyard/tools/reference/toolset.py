"""The file tools under the names and arguments of the reference filesystem server.

They differ where that server loses or leaks data: an edit must match exactly one place, a write does not replace
unseen changes, and links are not measured or moved through. Everything else behaves alike.
"""

from __future__ import annotations

from typing import Any

from toolyard.dispatch.tool import Tool
from toolyard.tools.reference.list import (
    DIRECTORY_TREE,
    GET_FILE_INFO,
    LIST_ALLOWED_DIRECTORIES,
    LIST_DIRECTORY,
    LIST_DIRECTORY_WITH_SIZES,
    SEARCH_FILES,
)
from toolyard.tools.reference.read import READ_FILE, READ_MEDIA_FILE, READ_MULTIPLE_FILES, READ_TEXT_FILE
from toolyard.tools.reference.write import CREATE_DIRECTORY, EDIT_FILE, MOVE_FILE, WRITE_FILE

REFERENCE_TOOLS: list[Tool[Any]] = [
    READ_FILE,
    READ_TEXT_FILE,
    READ_MEDIA_FILE,
    READ_MULTIPLE_FILES,
    WRITE_FILE,
    EDIT_FILE,
    CREATE_DIRECTORY,
    LIST_DIRECTORY,
    LIST_DIRECTORY_WITH_SIZES,
    DIRECTORY_TREE,
    MOVE_FILE,
    SEARCH_FILES,
    GET_FILE_INFO,
    LIST_ALLOWED_DIRECTORIES,
]
