"""Finding things in a root: text (grep), names by pattern (glob), what a folder holds (listing).

Nothing here follows a link, leaves the root, or shows what the policy's `visible` hides.
"""

from toolyard.fs.search.glob import GlobResult, glob
from toolyard.fs.search.grep import GrepQuery, GrepResult, OutputMode, grep
from toolyard.fs.search.listing import Entry, Names, Tree, list_folder, list_tree, search_names
from toolyard.fs.search.ripgrep import find_ripgrep

__all__ = [
    "Entry",
    "GlobResult",
    "GrepQuery",
    "GrepResult",
    "Names",
    "OutputMode",
    "Tree",
    "find_ripgrep",
    "glob",
    "grep",
    "list_folder",
    "list_tree",
    "search_names",
]
