"""The file of the index: private, replaceable, shared by processes."""

import os
import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.descriptors import open_now
from toolyard.codemode.search import ToolIndex
from toolyard.codemode.search.store import IndexStore
from toolyard.core.errors import SystemFault


def opened(path):
    return ToolIndex.open(path, semantic=False)


def edited(path):
    return ToolIndex.open_writable(path, semantic=False)


def test_a_missing_file_finds_nothing_and_says_what_to_do(path):
    with opened(path) as index:
        assert index.search("file") == []
        assert index.fingerprints() == {}
        assert "no search index yet" in index.note
        assert "toolyard sync" in index.note
    assert not os.path.exists(path)


def test_a_file_that_appears_is_found_by_an_open_reader(path, small):
    with opened(path) as reader, edited(path) as writer:
        writer.replace_server("files", small["files"])
        assert [hit.tool for hit in reader.search("read file", top=1)] == ["read_file"]
        assert reader.note == ""


def test_the_file_is_private_and_alone(tmp_path, small):
    path = str(tmp_path / "tools.index")
    with edited(path) as index:
        index.replace_server("files", small["files"])
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert os.listdir(tmp_path) == ["tools.index"]


@pytest.mark.parametrize(
    "content", [b"", b"not a database", b"SQLite format 3\x00" + b"\xff" * 5_000, os.urandom(20_000)]
)
def test_a_damaged_file_is_told_by_readers_and_replaced_by_writers(path, small, content):
    with open(path, "wb") as file:
        file.write(content)
    before = open_now()
    with opened(path) as reader:
        assert reader.search("file") == []
        assert path in reader.note
        assert "toolyard sync" in reader.note
    with edited(path) as writer:
        assert path in writer.note
        assert "A new one was created" in writer.note
        assert writer.fingerprints() == {}
        writer.replace_server("files", small["files"], "v1")
    with edited(path) as writer:
        assert writer.note == ""
        assert writer.fingerprints() == {"files": "v1"}
    assert open_now() <= before


def test_damage_in_the_middle_is_found_by_writers(path, small, doc):
    with edited(path) as writer:
        for number in range(20):
            docs = [doc(f"s{number}", f"tool_{number}_{other}", f"Word{number}x{other}.") for other in range(50)]
            writer.replace_server(f"s{number}", docs)
    with open(path, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(size // 2)
        file.write(b"\xa5" * (size // 4))
    with edited(path) as writer:
        assert "A new one was created" in writer.note
        assert writer.fingerprints() == {}


def test_a_search_sees_one_state_while_another_is_committed(path, small, doc, monkeypatch):
    with edited(path) as writer, opened(path) as reader:
        writer.replace_server("files", small["files"])
        found, postings = reader.search("read file"), IndexStore.postings

        def meanwhile(store, wanted):
            rows = list(postings(store, wanted))
            monkeypatch.undo()
            writer.replace_server("files", [doc("files", "paint", "Paint a wall.")])
            return rows

        reader._columns.clear()
        monkeypatch.setattr(IndexStore, "postings", meanwhile)
        assert reader.search("read file") == found
        assert [hit.tool for hit in reader.search("paint")] == ["paint"]


def test_damage_that_a_reader_meets_is_a_fault_with_a_next_step(path, small):
    with edited(path) as writer:
        writer.replace_server("files", small["files"])
    with sqlite3.connect(path) as plain:
        plain.execute("DROP TABLE posting")
    plain.close()
    with opened(path) as reader, pytest.raises(SystemFault, match="toolyard sync"):
        reader.search("file")


def test_a_file_of_another_format_is_replaced(path, small):
    with edited(path) as writer:
        writer.replace_server("files", small["files"])
    with sqlite3.connect(path) as plain:
        plain.execute("PRAGMA user_version = 99")
    plain.close()
    with opened(path) as reader:
        assert "format 99" in reader.note
        assert reader.search("file") == []
    with edited(path) as writer:
        assert "format 99" in writer.note
        assert writer.fingerprints() == {}


def test_another_programs_database_is_not_read(path):
    with sqlite3.connect(path) as plain:
        plain.execute("CREATE TABLE server (id)")
    plain.close()
    with opened(path) as reader:
        assert "not a search index" in reader.note


def test_a_reader_moves_to_the_file_that_replaced_its_own(path, small):
    with edited(path) as writer:
        writer.replace_server("files", small["files"])
    with opened(path) as reader:
        assert reader.search("read file")
        os.unlink(path)
        with edited(path) as writer:
            writer.replace_server("weather", small["weather"])
        assert {hit.server for hit in reader.search("read file weather", top=20)} == {"weather"}


def test_a_folder_that_cannot_be_written_is_a_fault(tmp_path):
    with pytest.raises(SystemFault, match="cannot be written"):
        edited(str(tmp_path / "absent" / "tools.index"))


def test_threads_share_one_index(path, small):
    with edited(path) as writer:
        for server, docs in small.items():
            writer.replace_server(server, docs)
    with opened(path) as reader, ThreadPoolExecutor(4) as threads:
        found = threads.map(lambda _: reader.search("read file", top=1)[0].tool, range(200), timeout=30)
        assert set(found) == {"read_file"}


_WRITER = """
import sys
from tests.support.toolsearch import simple_doc
from toolyard.codemode.search import ToolIndex
from toolyard.codemode.search.store import IndexStore
with ToolIndex.open_writable(sys.argv[1], semantic=False) as index:
    print("ready", flush=True)
    for turn in range(60):
        docs = [simple_doc("busy", f"paint_{turn}_{n}", "Paint a wall.") for n in range(20)]
        index.replace_server("busy", docs, str(turn))
"""


def test_another_process_syncs_while_this_one_searches(path, small):
    """Each search sees one whole state: twenty tools of one turn, or none yet."""
    with edited(path) as writer:
        writer.replace_server("files", small["files"])
    command = [sys.executable, "-c", _WRITER, path]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        opened(path) as reader,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        turns = set()
        while process.poll() is None:
            found = reader.search("paint wall", top=100)
            seen = {hit.tool.split("_")[1] for hit in found}
            assert len(seen) <= 1
            assert len(found) in (0, 20)
            turns |= seen
            assert reader.search("read file", top=1)[0].tool == "read_file"
        assert process.wait() == 0
        assert {hit.tool.split("_")[1] for hit in reader.search("paint wall", top=100)} == {"59"}
    assert turns
