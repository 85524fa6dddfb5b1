"""A server's folder: how it is imported, what its indexes say, and that the same listing gives the same bytes."""

import importlib
import json
import subprocess
import sys

import pytest

from toolyard.codemode.files import compile_group, compile_index, compile_server, folder_names
from toolyard.codemode.files.tool_file import LONGEST_DESCRIPTION, LONGEST_TEXT
from toolyard.core.upstream import ServerListing, ToolSchema

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
FILESYSTEM = ServerListing(
    "files",
    (
        ToolSchema("read_file", "Read a file. All of it.", PATH, annotations={"readOnlyHint": True}),
        ToolSchema("write_file", "Write a file.", PATH),
        ToolSchema("list", "List a folder.", PATH),
    ),
    version="1.2.3",
)


async def test_tools_are_imported_by_name(importable, sent):
    importable(FILESYSTEM)
    from servers.files import read_file

    await read_file("a.txt")
    import servers.files as fs

    await fs.write_file(path="b.txt")
    fs.list_.sync("c")
    assert [json.loads(line) for line in sent.wire] == [
        ["files", "read_file", {"path": "a.txt"}],
        ["files", "write_file", {"path": "b.txt"}],
        ["files", "list", {"path": "c"}],
    ]


def test_nothing_is_imported_before_it_is_asked_for(importable):
    importable(FILESYSTEM)
    package = importlib.import_module("servers.files")
    assert "servers.files.read_file" not in sys.modules
    _ = package.read_file
    assert "servers.files.read_file" in sys.modules
    assert "servers.files.write_file" not in sys.modules


@pytest.mark.parametrize(
    "way",
    [
        "import servers.files.read_file",
        "from servers.files.read_file import read_file",
        "from servers.files import read_file",
        "from servers.files import *",
        "import importlib; importlib.import_module('servers.files.read_file')",
    ],
)
def test_the_module_never_hides_the_tool(importable, way):
    importable(FILESYSTEM)
    exec(way, {})
    package = importlib.import_module("servers.files")
    assert repr(package.read_file) == "<tool files.read_file>"


def test_a_package_lists_its_tools(importable):
    importable(FILESYSTEM)
    package = importlib.import_module("servers.files")
    assert package.__all__ == ["list_", "read_file", "write_file"]
    assert set(package.__all__) <= set(dir(package))


def test_a_tool_that_is_not_there_is_asked_for_by_its_likely_name(importable):
    importable(FILESYSTEM)
    package = importlib.import_module("servers.files")
    with pytest.raises(AttributeError, match=r"has no tool 'read_fil'. Did you mean read_file"):
        _ = package.read_fil
    with pytest.raises(AttributeError, match=r"servers/files/INDEX.md lists them"):
        _ = package.zzz
    with pytest.raises(ImportError):
        exec("from servers.files import nothing_like_it", {})


def test_the_version_says_whose_tools_these_are_and_not_when(importable):
    importable(FILESYSTEM)
    version = importlib.import_module("servers.files.__version__")
    assert (version.__version__, version.__mcp_server__) == ("1.2.3", "files")
    assert len(version.__fingerprint__) == 64
    assert not hasattr(version, "__last_generated__")


def test_the_same_listing_gives_the_same_bytes_in_another_process():
    program = (
        "from tests.support.universe import universe\n"
        "from toolyard.codemode.files import compile_server\n"
        "import hashlib\n"
        "files = [compile_server(one).files for one in universe()[:12]]\n"
        "print(hashlib.sha256(repr([sorted(one.items()) for one in files]).encode()).hexdigest())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=50,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]


def test_a_changed_description_changes_the_fingerprint():
    changed = ServerListing("files", (ToolSchema("read_file", "Other.", PATH), *FILESYSTEM.tools[1:]), "1.2.3")
    assert compile_server(changed).files["__version__.py"] != compile_server(FILESYSTEM).files["__version__.py"]
    assert compile_server(changed).files["write_file.py"] == compile_server(FILESYSTEM).files["write_file.py"]


def test_the_index_of_a_server():
    compiled = compile_server(FILESYSTEM)
    assert compiled.files["INDEX.md"] == (
        "# servers.files 1.2.3\n\n"
        "- `read_file`: Read a file.\n- `write_file`: Write a file.\n- `list_`: List a folder.\n"
    )
    index = json.loads(compiled.files["index.json"])
    assert (index["server"], index["version"]) == ("files", "1.2.3")
    assert index["tools"][0] == {
        "name": "read_file",
        "function": "read_file",
        "path": "servers/files/read_file.py",
        "signature": "read_file(path: str) -> Result",
        "summary": "Read a file.",
        "read_only": True,
        "destructive": None,
    }


def test_the_index_of_all_servers():
    drive = compile_server(ServerListing("google-drive", (ToolSchema("getDocument", "Get it.", PATH),)))
    files = compile_index([compile_server(FILESYSTEM), drive])
    assert sorted(files) == ["INDEX.md", "__init__.py", "index.json"]
    assert files["INDEX.md"].split("\n")[-3:] == [
        "- `files`: read_file, write_file, list_",
        "- `google_drive` (server `google-drive`): getDocument",
        "",
    ]
    assert json.loads(files["index.json"])[-1] == {
        "server": "google-drive",
        "name": "getDocument",
        "path": "servers/google_drive/getDocument.py",
        "summary": "Get it.",
    }
    assert files == compile_index([drive, compile_server(FILESYSTEM)])


def test_folders_that_clash_are_told_apart():
    folders = folder_names(["google-drive", "google_drive", "Google-Drive", "slack"])
    assert folders["google_drive"] == "google_drive"
    assert folders["slack"] == "slack"
    assert len({name.casefold() for name in folders.values()}) == 4
    assert (
        compile_server(ServerListing("google-drive", ()), folder=folders["google-drive"]).folder
        == (folders["google-drive"])
    )


def test_a_name_that_is_listed_twice_gets_two_files_and_a_note(importable, sent):
    twice = ServerListing("twice", (ToolSchema("run", "First."), ToolSchema("run", "Second.")))
    (compiled,) = importable(twice)
    first, second = compiled.tools
    assert (first.function, second.name) == ("run", "run")
    text = compiled.files[f"{second.module}.py"]
    assert "The server lists this name twice; run is the other." in text
    assert "lists this name twice" not in compiled.files["run.py"]
    getattr(importlib.import_module("servers.twice"), second.function).sync()
    assert json.loads(sent.wire[0]) == ["twice", "run", {}]


def test_a_server_without_tools(importable):
    importable(ServerListing("empty", ()))
    assert importlib.import_module("servers.empty").__all__ == []


def test_two_thousand_tools(importable):
    (compiled,) = importable(ServerListing("many", tuple(ToolSchema(f"tool-{n}", "One.") for n in range(2_000))))
    package = importlib.import_module("servers.many")
    assert len(package.__all__) == len(compiled.tools) == 2_000
    assert repr(package.tool_1999) == "<tool many.tool-1999>"


def test_the_rest_of_an_endless_description_stands_beside():
    said = "Very long. " + "Word " * 300_000
    compiled = compile_server(ServerListing("wordy", (ToolSchema("talk", said),)))
    assert len(compiled.files["talk.py"]) < LONGEST_DESCRIPTION + 1_000
    assert "more characters: servers/wordy/talk.txt)" in compiled.files["talk.py"]
    assert len(compiled.files["talk.txt"]) == LONGEST_TEXT + 1
    assert compiled.tools[0].summary == "Very long."


def test_custom_tools_stand_in_groups(importable, tmp_path, sent, files):
    group = compile_group("web", [ToolSchema("web.screenshot", "Take a picture.", PATH)])
    assert (group.folder, group.tools[0].path) == ("web", "tools/web/screenshot.py")
    files.check_file(group.files["screenshot.py"])
    (tmp_path / "servers" / "web").mkdir(parents=True)
    for name, text in group.files.items():
        (tmp_path / "servers" / "web" / name).write_text(text)
    importlib.import_module("servers.web").screenshot.sync("x")
    assert json.loads(sent.wire[0]) == ["", "web.screenshot", {"path": "x"}]
    assert "custom_tool" in group.files["screenshot.py"]
    assert compile_index([group], "tools")["INDEX.md"].startswith("# tools\n")
