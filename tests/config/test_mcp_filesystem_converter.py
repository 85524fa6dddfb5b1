from __future__ import annotations

import copy
import subprocess
import sys

import pytest
import yaml

from toolyard.config.loader import load_config
from toolyard.config.mcp_filesystem_converter import MCPFilesystemConverter
from toolyard.core.errors import ConfigError
from toolyard.core.permission_modes import PermissionMode
from toolyard.team.paths import workspace_of
from toolyard.testing.mcp_client import StdioClient

WEATHER = {"name": "weather", "type": "stdio", "command": "npx", "args": ["-y", "weather"]}


def entry(folder, mode="strict"):
    return {
        "name": "filesystem",
        "type": "stdio",
        "command": sys.executable,
        "args": ["-m", "toolyard", "mcp", "--workspace", str(folder), "--permission-mode", mode],
    }


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"type": "gemini", "mcp_servers": [WEATHER]},
        {"cwd": ""},
        {"cwd": None, "permission_mode": None},
    ],
)
def test_a_config_without_a_folder_is_returned_untouched(config):
    before = copy.deepcopy(config)
    assert MCPFilesystemConverter.convert_config(config) is config
    assert config == before


@pytest.mark.parametrize("cwd", [{}, {"cwd": ""}, {"cwd": None}])
@pytest.mark.parametrize("agent", ["writer", "agent"])
def test_without_a_folder_an_agent_gets_the_one_it_has_in_a_run(tmp_path, cwd, agent):
    backend = {"permission_mode": "plan", **cwd}
    source = tmp_path / "toolyard.yaml"
    source.write_text(yaml.safe_dump({"agents": [{"id": agent, "backend": {"type": "gemini", **backend}}]}))
    config = load_config(str(source))

    converted = MCPFilesystemConverter.convert_config(
        backend, base=str(tmp_path), agent=None if agent == "agent" else agent
    )

    folder = workspace_of(config, config.agents[0])
    assert folder == str(tmp_path / "toolyard_workspace" / "agents" / agent / "workspace")
    options = ["--agent", "writer"] if agent == "writer" else []
    assert converted["mcp_servers"][0]["args"] == [*entry(folder, "plan")["args"], *options]


def test_an_agents_name_that_is_no_folder_name_is_spelled_as_in_a_run(tmp_path):
    converted = MCPFilesystemConverter.convert_config({"permission_mode": "plan"}, str(tmp_path), "../../etc")
    assert f"{tmp_path}/toolyard_workspace/agents/etc~" in converted["mcp_servers"][0]["args"][4]


def test_a_folder_becomes_our_server_with_strict_as_the_mode(tmp_path):
    config = {"type": "gemini", "model": "m", "cwd": str(tmp_path / "work")}
    assert MCPFilesystemConverter.convert_config(config) == {**config, "mcp_servers": [entry(tmp_path / "work")]}
    assert (tmp_path / "work").is_dir()


@pytest.mark.parametrize("mode", [mode.value for mode in PermissionMode])
def test_every_mode_is_handed_on(tmp_path, mode):
    converted = MCPFilesystemConverter.convert_config({"cwd": str(tmp_path), "permission_mode": mode})
    assert converted["mcp_servers"] == [entry(tmp_path, mode)]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([WEATHER], [WEATHER]),
        ({"weather": {k: v for k, v in WEATHER.items() if k != "name"}}, [WEATHER]),
        (["github", WEATHER, "slack"], ["github", WEATHER, "slack"]),
        ({"github": None}, ["github"]),
        (None, []),
        ([], []),
        ({}, []),
    ],
)
def test_lists_and_maps_of_servers_are_both_accepted(tmp_path, given, kept):
    converted = MCPFilesystemConverter.convert_config({"cwd": str(tmp_path), "mcp_servers": given})
    assert converted["mcp_servers"] == [entry(tmp_path), *kept]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([WEATHER, {"name": "filesystem", "command": "mine"}], [WEATHER, {"name": "filesystem", "command": "mine"}]),
        ({"filesystem": {"command": "mine"}}, [{"name": "filesystem", "command": "mine"}]),
        (["filesystem"], ["filesystem"]),
    ],
)
def test_an_entry_that_is_already_there_is_respected(tmp_path, given, kept):
    converted = MCPFilesystemConverter.convert_config({"cwd": str(tmp_path), "mcp_servers": given})
    assert converted["mcp_servers"] == kept


def test_converting_twice_changes_nothing_more(tmp_path):
    once = MCPFilesystemConverter.convert_config({"cwd": str(tmp_path), "mcp_servers": [WEATHER]})
    assert MCPFilesystemConverter.convert_config(once) == once


@pytest.mark.parametrize("servers", [[WEATHER], {"weather": {"command": "npx", "env": {"A": "b"}}}])
def test_the_input_is_neither_changed_nor_shared(tmp_path, servers):
    config = {"cwd": str(tmp_path), "mcp_servers": servers, "extra": {"deep": [1]}}
    before = copy.deepcopy(config)
    converted = MCPFilesystemConverter.convert_config(config)
    converted["extra"]["deep"].append(2)
    converted["mcp_servers"][1]["command"] = "changed"
    assert config == before


def test_existing_files_are_never_thrown_away(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "novel.txt").write_text("years of work")
    MCPFilesystemConverter.convert_config({"cwd": str(tmp_path)})
    assert (tmp_path / "sub" / "novel.txt").read_text() == "years of work"


def test_a_backends_options_reach_the_server_as_they_reach_an_agent_of_a_run(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "novel.txt").write_text("years of work")
    backend = {"cwd": str(folder), "fresh": True, "allowed_tools": ["Read", "Write"], "exclude_tools": ["Write"]}

    (server,) = MCPFilesystemConverter.convert_config(backend, agent="writer")["mcp_servers"]

    assert (folder / "novel.txt").exists()
    with StdioClient([server["command"], *server["args"]]) as client:
        names = [tool["name"] for tool in client.request("tools/list", {})["result"]["tools"]]
    assert names == ["Read"]
    assert not (folder / "novel.txt").exists()
    listed = subprocess.run(
        [sys.executable, "-m", "toolyard", "snapshot", "list", "--workspace", str(folder)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "writer" in listed.stdout
    assert "before a fresh start" in listed.stdout


def test_a_relative_folder_starts_at_the_base_or_where_the_process_stands(tmp_path, monkeypatch):
    converter = MCPFilesystemConverter()
    assert converter.setup_workspace_directory("a/b", base=str(tmp_path)) == str(tmp_path / "a" / "b")
    monkeypatch.chdir(tmp_path)
    assert converter.setup_workspace_directory("c") == str(tmp_path / "c")
    assert MCPFilesystemConverter.convert_config({"cwd": "d"}, base=str(tmp_path / "a"))["mcp_servers"] == [
        entry(tmp_path / "a" / "d")
    ]


def test_a_folder_in_the_home_is_understood(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert MCPFilesystemConverter().setup_workspace_directory("~/work") == str(tmp_path / "work")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"permission_mode": "strct"}, 'Did you mean "strict"?'),
        ({"permission_mode": "bypass"}, "bypassPermissions"),
        ({"permission_mode": 7}, "invalid permission_mode"),
        ({"permission_mode": ""}, "invalid permission_mode"),
        ({"mcp_servers": "weather"}, "`mcp_servers` must be"),
        ({"mcp_servers": [5]}, "`mcp_servers` must be"),
        ({"mcp_servers": {"weather": 5}}, "`mcp_servers.weather` must be a mapping"),
        ({"cwd": 5}, "`cwd` must be the path of a folder"),
        ({"cwd": "a\0b"}, "`cwd` must be the path of a folder"),
        ({"fresh": "yes"}, "`fresh` must be true or false"),
        ({"allowed_tools": "Read"}, "`allowed_tools` must be a list"),
        ({"exclude_tools": [5]}, "`exclude_tools` must be a list"),
    ],
)
def test_a_wrong_value_is_refused_before_a_folder_is_made(tmp_path, change, said):
    with pytest.raises(ConfigError) as caught:
        MCPFilesystemConverter.convert_config({"cwd": str(tmp_path / "new"), **change})
    assert said in str(caught.value)
    assert not (tmp_path / "new").exists()


def test_a_file_in_the_folders_place_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="cannot be created"):
        MCPFilesystemConverter.convert_config({"cwd": str(tmp_path / "file")})


def test_the_methods_of_the_class_serve_one_by_one(tmp_path):
    converter = MCPFilesystemConverter()
    assert converter.filesystem_server_name == "filesystem"
    assert converter.should_add_filesystem_server({"cwd": "x"}) is True
    assert converter.should_add_filesystem_server({"permission_mode": "strict"}) is True
    assert converter.should_add_filesystem_server({"type": "gemini"}) is False
    assert converter.generate_filesystem_mcp_server(str(tmp_path), "plan") == entry(tmp_path, "plan")
