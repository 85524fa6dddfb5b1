"""Updates tool files and the search index to match the known tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolyard.codemode.file_writer import write_groups, write_servers
from toolyard.codemode.generated_folder import SERVERS, TOOLS, GeneratedFolder, is_generated
from toolyard.codemode.search import ToolIndex

if TYPE_CHECKING:
    from toolyard.codemode.tool_knowledge import ToolKnowledge


@dataclass(frozen=True, slots=True)
class FileUpdate:
    """The result of an update."""

    files: int
    note: str
    """The note of the search index."""


def update_tool_files(mode: ToolKnowledge) -> FileUpdate:
    """Writes the files that differ."""
    root = mode.root
    groups = mode.custom.unwrapped_groups
    with ToolIndex.open_writable(mode.index_path, semantic=mode.is_semantic) as index:
        with GeneratedFolder(root, SERVERS, mode.deps.state) as servers:
            count = write_servers(mode.catalog, index, servers, mode.server_folders, mode.deps.list_own_tools())
        if groups or is_generated(root.path, TOOLS, mode.deps.state):
            with GeneratedFolder(root, TOOLS, mode.deps.state) as tools:
                count += write_groups(index, tools, groups)
        return FileUpdate(count, index.note)
