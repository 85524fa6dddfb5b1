"""Toolyard's own file tools as tool files, beside an attached server that has their name."""

from __future__ import annotations

from pathlib import Path

import pytest

import toolyard_runtime
from toolyard.app.own_tool_files import package_own_tools
from toolyard.app.toolsets import Toolset
from toolyard.core.errors import ConfigError
from toolyard.core.permission_modes import PermissionMode

from .conftest import Place, printed, run, tool

WRITE = "from servers.filesystem import write_file\nawait write_file(path='made.txt', content='by code')\n"


async def test_code_writes_and_reads_files_without_any_server(place: Place) -> None:
    yard = place.open()
    code = f"{WRITE}from servers.filesystem import read_file\nprint((await read_file(path='made.txt'))['content'])"

    assert await printed(yard, code) == "by code"
    assert (place.workspace / "made.txt").read_text() == "by code"
    assert ("write_file", "allow", "ok") in place.events(yard)
    assert not (place.workspace / "servers").exists()  # nothing but what was asked for is added to a user's folder


def test_the_tool_files_that_come_with_the_runtime_are_current(tmp_path) -> None:
    """`make tool-files` writes them anew."""
    package_own_tools(str(tmp_path))

    def files(folder):
        return {path.name: path.read_text() for path in folder.rglob("*.*") if "__pycache__" not in path.parts}

    assert files(Path(toolyard_runtime.__file__).parent / "own_packages") == files(tmp_path / "own_packages")


async def test_the_source_documents_call_reaches_the_own_tool(place: Place) -> None:
    yard = place.open()
    code = (
        "from _massgen_runtime import call_mcp_tool\n"
        "await call_mcp_tool('filesystem', 'write_file', {'path': 'made.txt', 'content': 'x'})"
    )

    await run(yard, code)

    assert (place.workspace / "made.txt").read_text() == "x"


async def test_the_policy_judges_what_code_asks_of_the_file_tools(place: Place) -> None:
    yard = place.open(permissions={"deny": ["Write(secret/**)"]})
    outside = "from servers.filesystem import read_file\nawait read_file(path='/etc/passwd')"
    denied = "from servers.filesystem import write_file\nawait write_file(path='secret/x', content='')"

    assert "PermissionError" in await printed(yard, outside)
    assert "PermissionError" in await printed(yard, denied)

    assert [event for event in place.events(yard) if event[0].endswith("_file")] == [
        ("read_file", "deny", "denied"),
        ("write_file", "deny", "denied"),
    ]


async def test_a_question_about_a_file_goes_to_whoever_runs_the_code(place: Place) -> None:
    yard = place.open(PermissionMode.DEFAULT)
    asked: list[str] = []

    async def ask(action, decision) -> bool:
        asked.append(action.tool)
        return True

    await run(yard, WRITE, ask)

    assert asked == ["execute_python", "write_file"]
    assert (place.workspace / "made.txt").exists()


async def test_what_an_agent_is_not_given_its_code_cannot_call_either(place: Place) -> None:
    agents = [{"id": "a", "backend": {"exclude_tools": ["write_file"]}}]
    yard = place.open(agent="a", agents=agents)

    assert "there is no tool called 'write_file'" in await printed(yard, WRITE)


@pytest.fixture
def attached(place: Place) -> Place:
    """A server that has the name of our own tools."""
    place.server(
        "filesystem", tool("write_file", "Write a file.", path={"type": "string"}, content={"type": "string"})
    )
    place.sync()
    return place


async def test_an_attached_server_of_that_name_does_not_take_the_file_tools_place(attached: Place) -> None:
    yard = attached.open()

    await run(yard, WRITE)

    assert (attached.workspace / "made.txt").read_text() == "by code"


async def test_the_attached_server_is_reached_under_another_name(attached: Place) -> None:
    yard = attached.open()
    code = (
        "from servers.filesystem_server import write_file\n"
        "print((await write_file(path='made.txt', content='theirs')).text)"
    )

    assert '"given": {"path": "made.txt", "content": "theirs"}' in await printed(yard, code)
    assert not (attached.workspace / "made.txt").exists()
    assert ("mcp__filesystem__write_file", "allow", "ok") in attached.events(yard)


async def test_a_search_names_each_by_what_code_imports(attached: Place) -> None:
    yard = attached.open()

    found = {(hit.server, hit.path) for hit in yard.codemode.find_tools("write_file", 10) if hit.tool == "write_file"}

    assert found == {
        ("filesystem", "servers/filesystem/write_file.py"),
        ("filesystem_server", "servers/filesystem_server/write_file.py"),
    }


def test_a_sync_announces_the_collision(attached: Place) -> None:
    (notice,) = attached.sync().notices

    assert "servers.filesystem_server" in notice


def test_the_group_filesystem_is_ours_and_the_servers_has_its_folders_name(attached: Place) -> None:
    choices = {"filesystem": ["write_file"], "filesystem_server": ["write_file"]}

    tools = attached.open(toolyard={"in_context_tools": choices}).dispatch.tools

    assert set(tools) == {"search_tools", "write_file", "filesystem__write_file"}
    assert tools["write_file"].kind != "call"


@pytest.mark.parametrize(
    ("toolset", "choice", "served"),
    [
        (Toolset.CLAUDE, "*", {"execute_python", "Bash", "BashOutput", "KillShell"}),
        (Toolset.CLAUDE, ["execute_bash"], {"execute_bash"}),
        (Toolset.CODE, "*", {"search_tools", "execute_python", "execute_bash", "BashOutput", "KillShell"}),
    ],
)
def test_the_group_code_execution_has_one_name_for_commands(place: Place, toolset, choice, served) -> None:
    choices = {"code_execution": choice, "filesystem": []}

    assert set(place.open(toolset=toolset, toolyard={"in_context_tools": choices}).dispatch.tools) == served


def test_an_unknown_group_is_answered_with_the_names_that_count(attached: Place) -> None:
    with pytest.raises(ConfigError, match="filesystem_server"):
        attached.open(toolyard={"in_context_tools": {"weather": "*"}})
