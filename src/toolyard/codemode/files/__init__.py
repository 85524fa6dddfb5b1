"""Tool files: generates typed Python from a server's listing. Pure text, nothing is executed."""

from toolyard.codemode.files.indexes import compile_index
from toolyard.codemode.files.names import OWN_SERVER
from toolyard.codemode.files.packages import (
    code_name,
    collision_notices,
    compile_group,
    compile_own_tools,
    compile_server,
    folder_names,
    server_for_code_name,
)
from toolyard.codemode.files.tool_file import CompiledServer, CompiledTool

__all__ = [
    "OWN_SERVER",
    "CompiledServer",
    "CompiledTool",
    "code_name",
    "collision_notices",
    "compile_group",
    "compile_index",
    "compile_own_tools",
    "compile_server",
    "folder_names",
    "server_for_code_name",
]
