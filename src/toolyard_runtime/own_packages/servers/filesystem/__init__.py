from typing import TYPE_CHECKING

from toolyard_runtime.tool import lazy_tools

if TYPE_CHECKING:
    from .create_directory import create_directory as create_directory
    from .directory_tree import directory_tree as directory_tree
    from .edit_file import edit_file as edit_file
    from .get_file_info import get_file_info as get_file_info
    from .list_allowed_directories import list_allowed_directories as list_allowed_directories
    from .list_directory import list_directory as list_directory
    from .list_directory_with_sizes import list_directory_with_sizes as list_directory_with_sizes
    from .move_file import move_file as move_file
    from .read_file import read_file as read_file
    from .read_media_file import read_media_file as read_media_file
    from .read_multiple_files import read_multiple_files as read_multiple_files
    from .read_text_file import read_text_file as read_text_file
    from .search_files import search_files as search_files
    from .write_file import write_file as write_file

__all__ = [
    "create_directory",
    "directory_tree",
    "edit_file",
    "get_file_info",
    "list_allowed_directories",
    "list_directory",
    "list_directory_with_sizes",
    "move_file",
    "read_file",
    "read_media_file",
    "read_multiple_files",
    "read_text_file",
    "search_files",
    "write_file",
]
__getattr__, __dir__ = lazy_tools(__name__, __all__)
