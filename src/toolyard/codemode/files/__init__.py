"""Tool files: from what a server lists to the typed Python that stands for it. Pure text, nothing is executed."""

from toolyard.codemode.files.compiled import CompiledServer, CompiledTool
from toolyard.codemode.files.indexes import compile_index
from toolyard.codemode.files.packages import compile_group, compile_server, folder_names

__all__ = [
    "CompiledServer",
    "CompiledTool",
    "compile_group",
    "compile_index",
    "compile_server",
    "folder_names",
]
