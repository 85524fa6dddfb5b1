"""What sync writes from the catalog: the files, and the index that is searched."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolyard.codemode.catalog import Catalog
from toolyard.codemode.file_writer import write_servers
from toolyard.codemode.generated_folder import GeneratedFolder
from toolyard.codemode.search import ToolIndex
from toolyard.core.upstream import ServerListing, ToolSchema
from toolyard.files.roots import Root

READ = ToolSchema("read", "Read a note.", {"type": "object", "properties": {}})


@pytest.fixture
def write(tmp_path: Path):
    """Record what a server says of itself and write; how many files that took."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()

    def written(instructions: str) -> int:
        index_path = str(tmp_path / "tools.index")
        root = Root(str(workspace))
        try:
            with (
                Catalog.open(str(tmp_path)) as catalog,
                ToolIndex.open_writable(index_path, semantic=True) as index,
                GeneratedFolder(root, "servers", f"{root.path}-state") as folder,
            ):
                catalog.record_listing(ServerListing("notes", (READ,), "1", "2025-11-25", instructions), "same")
                return write_servers(catalog, index, folder, {"notes": "notes"}, ServerListing("filesystem", ()))
        finally:
            root.close()

    return written


def found(state: Path, query: str) -> float:
    with ToolIndex.open(str(state / "tools.index"), semantic=True) as index:
        return next((hit.score for hit in index.search(query) if hit.server == "notes"), 0.0)


def test_what_a_server_says_of_itself_is_found_by_meaning(write, tmp_path):
    assert write("") > 0
    before = found(tmp_path, "recipes of cakes and bread")
    assert write("A cookbook: cakes, bread and other things from the oven.") > 0
    assert found(tmp_path, "recipes of cakes and bread") > before


def test_nothing_is_written_twice(write):
    assert write("A cookbook.") > 0
    assert write("A cookbook.") == 0
