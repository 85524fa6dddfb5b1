"""Brings tool files and search index up to what is known of the tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolyard.codemode.file_writer import write_groups, write_servers
from toolyard.codemode.generated_folder import SERVERS, TOOLS, GeneratedFolder, is_ours
from toolyard.codemode.search import ToolIndex

if TYPE_CHECKING:
    from toolyard.codemode.tool_knowledge import ToolKnowledge


@dataclass(frozen=True, slots=True)
class Wrote:
    files: int
    note: str
    """Of the search index."""


def write(mode: ToolKnowledge) -> Wrote:
    """Write what differs from what is known."""
    root = mode.root
    groups = mode.custom.plain_groups
    with ToolIndex.edit(mode.index_path, semantic=mode.is_semantic) as index:
        with GeneratedFolder(root, SERVERS, mode.around.state) as servers:
            count = write_servers(mode.catalog, index, servers, mode.folders, mode.around.own_listing())
        if groups or is_ours(root.path, TOOLS, mode.around.state):
            with GeneratedFolder(root, TOOLS, mode.around.state) as tools:
                count += write_groups(index, tools, groups)
        return Wrote(count, index.note)
