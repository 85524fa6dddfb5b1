"""What `toolyard sync` shows a person when there is much to show."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from toolyard.cli.main import toolyard
from toolyard.core.errors import ConfigError

from .conftest import Attached

COMMAND = [sys.executable, "-m", "toolyard.testing.mock_mcp_server", "--tools", "50"]


def test_many_new_tools_are_told_server_by_server(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    config = tmp_path / "team.yaml"
    servers = {name: {"command": COMMAND} for name in ("one", "two")}
    config.write_text(json.dumps({"toolyard": {"workspace": "ws", "available_mcp_servers": servers}}))
    words = [sys.executable, "-m", "toolyard", "sync", "--config", str(config), "--state", str(tmp_path / "state")]
    told = subprocess.run(words, capture_output=True, text=True, timeout=50, check=True, cwd=tmp_path).stdout
    lines = told.splitlines()
    assert lines[0].startswith("118 tools of 2 servers; asked 2,")
    assert sorted(lines[1:3]) == ["  + one: 59 tools", "  + two: 59 tools"]
    assert len(lines) == 4


@pytest.mark.parametrize("near", [".mcp.json", ".cursor/mcp.json", ""])
def test_a_sync_with_nothing_to_ask_says_so_and_names_a_server_file_that_lies_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, near: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    place = tmp_path / "project"
    place.mkdir()
    monkeypatch.chdir(place)
    if near:
        (place / near).parent.mkdir(exist_ok=True)
        (place / near).write_text(json.dumps({"mcpServers": {"one": {"command": COMMAND[0], "args": COMMAND[1:]}}}))
    before = sorted(place.rglob("*"))
    ran = CliRunner().invoke(toolyard, ["sync", "--state", str(tmp_path / "state")])
    assert isinstance(ran.exception, ConfigError)
    said = str(ran.exception)
    assert said.startswith("No servers are configured; nothing was written.")
    runs = f"`toolyard sync --config {near} --state {tmp_path / 'state'}`"
    assert (runs in said) if near else ("--config F" in said)
    assert sorted(place.rglob("*")) == before


def test_a_configuration_without_servers_is_synced(attached: Attached) -> None:
    attached.document["toolyard"] = {"workspace": "ws", "available_mcp_servers": []}
    assert attached.run("sync").startswith("0 tools of 0 servers;")


def test_the_last_server_of_a_configuration_can_be_taken_out(attached: Attached) -> None:
    attached.run("sync")
    attached.document["toolyard"] = {"workspace": "ws"}
    assert attached.run("sync").startswith("0 tools of 0 servers;")
    assert not (attached.base / "ws/servers/my_server").exists()


def test_a_server_file_that_cannot_be_read_is_named_once(attached: Attached) -> None:
    (attached.base / "bad.json").write_text('{"mcpServers": {\n  "a": }')
    attached.document["toolyard"]["server_files"] = ["gone.json", "bad.json"]
    lines = attached.run("sync", code=1).splitlines()
    name = "Name a file that contains MCP servers, such as .mcp.json."
    assert f"✗ gone.json: cannot be read (No such file or directory). {name}" in lines
    wrong = "✗ bad.json: line 2 is not valid JSON: expecting value. Check the quotes, commas and brackets there."
    assert wrong in lines
