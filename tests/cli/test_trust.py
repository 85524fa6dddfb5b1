"""`toolyard trust`: a configuration that is found widens the policy once the user trusts its content."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import ran_with
from toolyard.cli.common.resolve_workspace import resolve_workspace
from toolyard.core.errors import ConfigError
from toolyard.core.permission_modes import PermissionMode

WIDE = "permissions: {mode: moderate, moderate_roots: []}\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.chdir(folder)
    return folder


def trusted(project: Path, text: str) -> Path:
    file = project / "toolyard.yaml"
    file.write_text(text)
    ran_with(["trust", "--yes"], code=0)
    return file


def refusal() -> ConfigError:
    with pytest.raises(ConfigError, match="is not trusted") as caught:
        resolve_workspace(None, None)
    return caught.value


def test_the_refusal_names_the_command_and_the_command_lifts_it(project: Path) -> None:
    file = project / "toolyard.yaml"
    file.write_text(WIDE)
    assert f"`toolyard trust {file}`" in refusal().hint

    said = ran_with(["trust", str(file), "--yes"], code=0)

    assert "permission mode moderate, further roots" not in said
    assert "widens what agents may do: permission mode moderate" in said
    assert resolve_workspace(None, None).config.permissions.mode is PermissionMode.MODERATE


def test_any_change_of_the_content_ends_the_trust(project: Path) -> None:
    file = trusted(project, WIDE)
    file.write_text(WIDE + "# a comment\n")
    assert "changed since you trusted it" in refusal().message
    file.write_text(WIDE)
    resolve_workspace(None, None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".mcp.json", "toolyard: {server_files: [.mcp.json]}\n"),
        ("shop.py", "toolyard: {available_custom_tools: [{group: shop, path: shop.py}]}\n"),
        ("shop.py", "toolyard: {available_custom_tools: ['shop.py:price']}\n"),
        (".env", "available_mcp_servers: [{name: x, command: y, env_file: .env}]\n"),
    ],
)
def test_a_change_of_a_file_that_it_includes_ends_the_trust(project: Path, name: str, text: str) -> None:
    (project / name).write_text("{}\n")
    trusted(project, text)
    resolve_workspace(None, None)
    (project / name).write_text("{} \n")
    refusal()


def test_a_change_of_a_large_file_that_it_includes_ends_the_trust(project: Path) -> None:
    large = "#" * (17 << 20)
    (project / "shop.py").write_text(f"{large}\ndef price() -> float: return 1.0\n")
    trusted(project, "toolyard: {available_custom_tools: ['shop.py:price']}\n")
    assert resolve_workspace(None, None).config.toolyard.available_custom_tools
    (project / "shop.py").write_text(f"{large}\ndef price() -> float: return 2.0\n")
    refusal()


def test_a_change_of_the_env_file_of_a_server_in_a_server_file_ends_the_trust(project: Path) -> None:
    write_server_file(project)
    trusted(project, "toolyard: {server_files: [.vscode/mcp.json]}\n")
    resolve_workspace(None, None)
    (project / "server.env").write_text("LD_PRELOAD=./evil.so\n")
    refusal()


def test_a_command_cannot_change_the_env_file_of_a_server_in_a_server_file(project: Path) -> None:
    write_server_file(project)
    file = project / "toolyard.yaml"
    file.write_text("toolyard: {server_files: [.vscode/mcp.json]}\n")
    ran_with(["exec", "--bash", "-c", "echo LD_PRELOAD=./evil.so >> server.env", "--config", str(file)], code=1)
    assert (project / "server.env").read_text() == "MODE=plain\n"


def write_server_file(project: Path) -> None:
    (project / ".vscode").mkdir()
    server = {"type": "stdio", "command": "y", "envFile": "${workspaceFolder}/server.env"}
    (project / ".vscode" / "mcp.json").write_text(json.dumps({"servers": {"x": server}}))
    (project / "server.env").write_text("MODE=plain\n")


@pytest.mark.parametrize("place", ["configuration", "server file"])
def test_an_env_file_that_a_variable_names_counts_for_the_trust(
    project: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    server = {"name": "x", "command": "y", "env_file": "${WHICH:-plain}.env"}
    text = json.dumps({"available_mcp_servers": [server]})
    if place == "server file":
        (project / "mcp.json").write_text(json.dumps({"mcpServers": {"x": {**server, "name": None}}}))
        text = "toolyard: {server_files: [mcp.json]}"
    for name in ("plain", "other"):
        (project / f"{name}.env").write_text("MODE=plain\n")
    trusted(project, text)
    resolve_workspace(None, None)
    (project / "other.env").write_text("MODE=other\n")
    resolve_workspace(None, None)
    (project / "plain.env").write_text("LD_PRELOAD=./evil.so\n")
    refusal()
    (project / "plain.env").write_text("MODE=plain\n")
    resolve_workspace(None, None)
    monkeypatch.setenv("WHICH", "other")
    refusal()


def test_a_command_cannot_change_an_env_file_that_a_variable_names(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHICH", "server")
    file = project / "toolyard.yaml"
    file.write_text(
        json.dumps({"available_mcp_servers": [{"name": "x", "command": "y", "env_file": "${WHICH}.env"}]})
    )
    (project / "server.env").write_text("MODE=plain\n")
    ran_with(["exec", "--bash", "-c", "echo LD_PRELOAD=./evil.so >> server.env", "--config", str(file)], code=1)
    assert (project / "server.env").read_text() == "MODE=plain\n"


def test_a_file_that_appears_later_ends_the_trust(project: Path) -> None:
    trusted(project, "toolyard: {server_files: [.mcp.json]}\n")
    resolve_workspace(None, None)
    (project / ".mcp.json").write_text("{}")
    refusal()


def test_a_trusted_file_takes_variables(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", "secret")
    file = project / "toolyard.yaml"
    file.write_text("permissions: {deny: ['Read(${WHERE}/**)']}\n")
    assert f"`toolyard trust {file}`" in refusal().hint

    assert "uses variables of your environment: WHERE" in ran_with(["trust", "--yes"], code=0)

    assert resolve_workspace(None, None).config.permissions.deny == ("Read(secret/**)",)
    monkeypatch.delenv("WHERE")
    with pytest.raises(ConfigError, match="WHERE"):
        resolve_workspace(None, None)


def test_trust_is_of_one_path(project: Path) -> None:
    trusted(project, WIDE)
    copy = project / "copy"
    copy.mkdir()
    (copy / "toolyard.yaml").write_text(WIDE)
    os.chdir(copy)
    refusal()


def test_a_link_to_a_trusted_configuration_is_not_trusted(project: Path) -> None:
    trusted(project, WIDE)
    cloned = project / "cloned"
    cloned.mkdir()
    (cloned / "toolyard.yaml").symlink_to("../toolyard.yaml")
    os.chdir(cloned)
    refusal()


def test_a_linked_configuration_can_be_trusted_by_the_name_it_is_found_by(project: Path) -> None:
    (project / "shared.yaml").write_text(WIDE)
    (project / "toolyard.yaml").symlink_to("shared.yaml")
    ran_with(["trust", "--yes"], code=0)
    assert resolve_workspace(None, None).config.permissions.mode is PermissionMode.MODERATE
    assert "trusted  " in ran_with(["trust", "--list"], code=0)
    (project / "shared.yaml").write_text(WIDE + "# changed\n")
    refusal()


def test_a_configuration_below_a_linked_folder_is_trusted_by_either_name(project: Path) -> None:
    trusted(project, WIDE)
    link = project.parent / "link"
    link.symlink_to(project)
    assert resolve_workspace(str(link), None).config.permissions.mode is PermissionMode.MODERATE


def test_what_is_trusted_is_listed_and_can_be_revoked(project: Path) -> None:
    assert ran_with(["trust", "--list"], code=0) == "No configuration is trusted.\n"
    file = trusted(project, WIDE)
    assert ran_with(["trust", "--list"], code=0).startswith("trusted")
    file.write_text("{}\n")
    (listed,) = json.loads(ran_with(["trust", "--list", "--json"], code=0))
    assert (listed["path"], listed["state"]) == (str(file), "changed")
    file.write_text(WIDE)

    assert "no longer trusted" in ran_with(["trust", "--revoke"], code=0)

    refusal()
    assert "was not trusted" in ran_with(["trust", "--revoke", str(project)], code=1)


def test_nobody_is_trusted_unasked(project: Path) -> None:
    (project / "toolyard.yaml").write_text(WIDE)
    assert "--yes" in ran_with(["trust"], code=2, typed="y\n")
    refusal()


def test_what_widens_nothing_needs_no_trust(project: Path) -> None:
    (project / "toolyard.yaml").write_text("permissions: {mode: plan}\n")
    assert "it needs no trust" in ran_with(["trust"], code=0)
    assert ran_with(["trust", "--list"], code=0) == "No configuration is trusted.\n"
    assert "toolyard.yaml, or the folder" in ran_with(["trust", str(project / "missing")], code=2)


def test_records_are_private(project: Path, tmp_path: Path) -> None:
    trusted(project, WIDE)
    (record,) = (tmp_path / "XDG_STATE_HOME" / "toolyard" / "trust").iterdir()
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    record.write_text("[]")
    refusal()


@pytest.mark.parametrize(
    "words", ["audit", "snapshot list", "snapshot create", "memory list", "skill list", "threads list", "doctor"]
)
def test_commands_that_give_no_rights_go_on_with_agents_and_folders(project: Path, words: str) -> None:
    (project / "toolyard.yaml").write_text(WIDE + "agents: [{id: ana, backend: {cwd: work, fresh: true}}]\n")
    said = ran_with(words.split(), code=0)
    assert "is not trusted" in said
    assert os.path.isdir(project / "work")


@pytest.mark.parametrize("words", ["exec -c 1", "search x", "tools list", "sync", "mcp", "assistant", "call x.y"])
def test_commands_that_give_rights_name_the_way_out(project: Path, words: str) -> None:
    (project / "toolyard.yaml").write_text(WIDE)
    assert f"`toolyard trust {project}/toolyard.yaml`" in ran_with(words.split(), code=2)


def test_a_place_outside_is_refused_to_every_command(project: Path) -> None:
    (project / "toolyard.yaml").write_text("toolyard: {workspace: ../elsewhere}\n")
    assert "toolyard trust" in ran_with(["snapshot", "list"], code=2)
    assert not (project.parent / "elsewhere").exists()
    ran_with(["trust", "--yes"], code=0)
    ran_with(["snapshot", "list"], code=0)


@pytest.mark.parametrize("exists", [True, False])
def test_an_agent_whose_workspace_holds_the_state_folder_cannot_grant_trust(
    project: Path, monkeypatch: pytest.MonkeyPatch, *, exists: bool
) -> None:
    state = project / "home" / "state" / "toolyard" / "trust"
    state.mkdir(parents=True) if exists else state.parent.parent.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(project / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(project / "home" / "state"))
    away = str(project.parent / "away")
    forged = str(state / "forged")

    command = f"mkdir -p {state}; echo x > {forged}"
    where = ("--workspace", str(project), "--state", away)
    subprocess.run(
        [sys.executable, "-m", "toolyard", "exec", "--bash", "-c", command, *where],
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert not os.path.exists(forged)


def test_an_agent_whose_workspace_holds_the_state_folder_cannot_change_the_record_of_another_workspace(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(project / "home" / "state"))
    other = project.parent / "other"
    other.mkdir()
    exec_bash = [sys.executable, "-m", "toolyard", "exec", "--bash"]
    subprocess.run([*exec_bash, "-c", "echo x > made", "--workspace", str(other)], timeout=60, check=True)
    logs = list((project / "home" / "state" / "toolyard").glob("other-*/audit.jsonl"))
    before = logs[0].read_bytes()

    command = f"echo x >> {logs[0]}; rm -r {logs[0].parent}; mv {logs[0].parent} moved; touch tried"
    where = ("--workspace", str(project), "--state", str(project.parent / "away"))
    subprocess.run([*exec_bash, "-c", command, *where], timeout=60, check=True)

    assert (project / "tried").exists()
    assert [log.read_bytes() for log in logs] == [before]
    assert (logs[0].parent / "snapshots" / "index.sqlite3").exists()


def test_a_command_cannot_change_what_the_configuration_includes(project: Path) -> None:
    (project / "shop.py").write_text("def price(part: str) -> float:\n    return 1.0\n")
    file = project / "toolyard.yaml"
    file.write_text("toolyard: {available_custom_tools: [{group: shop, path: shop.py}]}\n")
    for words in (["-c", "open('shop.py', 'a').write('x')"], ["--bash", "-c", "echo x >> shop.py"]):
        ran_with(["exec", *words, "--config", str(file)], code=1)
    ran_with(["exec", "--bash", "-c", "echo x > other.py", "--config", str(file)], code=0)
    assert (project / "shop.py").read_text().endswith("return 1.0\n")
