"""Searches a root: text (grep), names by pattern (glob), and the content of folders (listing).

Nothing here follows a link, leaves the root, or shows what the policy's `visible` hides.
"""

from toolyard.files.search.folder_listing import (
    FolderTree,
    ListingEntry,
    NameMatches,
    list_folder,
    list_tree,
    search_names,
)
from toolyard.files.search.glob import GlobResult, glob
from toolyard.files.search.grep import GrepQuery, GrepResult, OutputMode, grep
from toolyard.files.search.ripgrep import find_ripgrep

__all__ = [
    "FolderTree",
    "GlobResult",
    "GrepQuery",
    "GrepResult",
    "ListingEntry",
    "NameMatches",
    "OutputMode",
    "find_ripgrep",
    "glob",
    "grep",
    "list_folder",
    "list_tree",
    "search_names",
]
