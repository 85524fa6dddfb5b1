"""Names, entries and files come together as one list of servers."""

from __future__ import annotations

import json

import pytest

from toolyard.config.loader import load_config
from toolyard.config.server_registry import read_registry, resolve_servers
from toolyard.config.settings import Settings


@pytest.fixture
def settings(tmp_path):
    home = tmp_path / "home"
    (home / ".config/toolyard").mkdir(parents=True)
    return Settings.from_environment({"HOME": str(home)})


@pytest.fixture
def registry(settings, tmp_path):
    def write(text: str, name: str = "servers.yaml") -> None:
        (tmp_path / "home/.config/toolyard" / name).write_text(text)

    return write


@pytest.fixture
def resolve(settings, tmp_path):
    def _resolve(text: str):
        (tmp_path / "toolyard.yaml").write_text(text)
        return resolve_servers(load_config(str(tmp_path / "toolyard.yaml"), env={}), settings)

    return _resolve


def names(resolved) -> list[str]:
    return [entry.name for entry in resolved.entries]


def test_a_bare_name_is_looked_up_in_the_users_file(resolve, registry, settings, tmp_path):
    registry("github: {command: gh-mcp, env: {T: '${GH}'}}\nslack: {url: 'https://x'}\n")

    resolved = resolve("available_mcp_servers: [github, {name: own, command: ./run, cwd: sub}]\n")

    assert (sorted(names(resolved)), resolved.problems) == (["github", "own"], ())
    places = {entry.name: (entry.base, entry.origin) for entry in resolved.entries}
    assert places == {
        "github": (settings.home, f"{settings.config_home}/servers.yaml"),
        "own": (str(tmp_path), str(tmp_path / "toolyard.yaml")),
    }


def test_the_users_file_may_be_json_in_any_dialect(resolve, registry):
    registry('{"mcpServers": {"a": {"command": "x", "args": ["${V}"]}}}', "servers.json")
    assert names(resolve("available_mcp_servers: [a]\n")) == ["a"]


def test_an_unknown_name_is_an_error_with_a_guess_and_costs_nobody_else(resolve, registry):
    registry("github: {command: x}\nslack: {command: x}\n")
    resolved = resolve("available_mcp_servers: [gihub, slack]\n")
    assert names(resolved) == ["slack"]
    assert 'server "gihub": is not in' in str(resolved.errors[0])
    assert 'Did you mean "github"?' in str(resolved.errors[0])


def test_an_unknown_name_is_compared_with_those_that_the_file_describes(resolve, registry):
    text = "available_mcp_servers: [gihub]\nagents: [{id: a, backend: {mcp_servers: [{name: github, command: x}]}}]\n"

    assert 'Did you mean "github"?' in str(resolve(text).errors[0])
    registry("slack: {command: x}\n")
    assert 'Did you mean "github"?' in str(resolve(text).errors[0])


def test_a_name_without_a_users_file_says_where_to_write_one(resolve, settings):
    (error,) = resolve("available_mcp_servers: [github]\n").errors
    assert f"is only a name, and {settings.config_home}/servers.yaml does not exist." in str(error)
    assert "`github: {command: ...}`" in str(error)


def test_a_star_stands_for_everything_in_the_users_file(resolve, registry):
    registry("a: {command: x}\nb: {command: y}\n")
    assert names(resolve("available_mcp_servers: '*'\n")) == ["a", "b"]
    assert names(resolve("available_mcp_servers: ['*', {name: b, command: own}]\n")) == ["b", "a"]


def test_a_broken_users_file_is_one_error(resolve, registry):
    registry("a: [")
    resolved = resolve("available_mcp_servers: [a, {name: b, command: x}]\n")
    assert names(resolved) == ["b"]
    assert "is not valid YAML" in str(resolved.errors[0])


def test_no_users_file_is_read_where_no_name_asks_for_it(resolve, registry):
    registry("a: [")
    assert resolve("available_mcp_servers: [{name: b, command: x}]\n").problems == ()


def test_settings_without_a_place_find_no_file_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "servers.yaml").write_text("a: {command: evil}\n")
    monkeypatch.chdir(tmp_path)
    assert read_registry(Settings(home="/h", state_home="/s", temp_dir="/t", documents="/d")) is None


def test_files_of_other_programs_are_read_when_they_are_named(resolve, tmp_path, settings):
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}))
    (tmp_path / "home/other.json").write_text(json.dumps({"mcpServers": {"c": {"command": "z"}}}))
    resolved = resolve(
        "toolyard:\n  server_files: [.mcp.json, ~/other.json, gone.json]\n"
        "  available_mcp_servers: [{name: a, command: own}]\n"
    )
    assert [(entry.name, entry.command) for entry in resolved.entries] == [("a", "own"), ("b", "y"), ("c", "z")]
    assert [(problem.server, problem.severity) for problem in resolved.problems] == [
        ("a", "note"),
        ("gone.json", "error"),
    ]


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "toolyard", "args": ["mcp"]},
        {"command": "/usr/bin/python3", "args": ["-m", "toolyard", "mcp"]},
        {"command": "uvx", "args": ["toolyard", "mcp", "--tools", "code"]},
    ],
)
def test_toolyard_does_not_serve_itself(resolve, tmp_path, entry):
    content = {"mcpServers": {"me": entry, "notme": {"command": "npx", "args": ["toolyard-weather", "mcp"]}}}
    (tmp_path / ".mcp.json").write_text(json.dumps(content))
    assert names(resolve("toolyard: {server_files: [.mcp.json]}\n")) == ["notme"]


def test_a_disabled_server_is_left_out_and_told(resolve):
    resolved = resolve("available_mcp_servers: [{name: a, command: x, disabled: true}]\n")
    assert (names(resolved), [str(p.message) for p in resolved.problems]) == ([], ["is disabled."])
    assert resolved.errors == ()


def test_two_servers_of_one_name_are_an_error_and_the_same_one_twice_is_not(resolve):
    resolved = resolve(
        "available_mcp_servers: [{name: a, command: x}]\n"
        "agents:\n- {id: p, backend: {mcp_servers: [{name: a, command: x}, {name: b, command: y}]}}\n"
        "- {id: q, backend: {mcp_servers: [{name: b, command: other}, a]}}\n"
    )
    assert names(resolved) == ["a", "b"]
    assert [str(error.message) for error in resolved.errors] == [
        "is declared twice with different settings; the first entry is used."
    ]
    assert resolved.shared == {"a"}
