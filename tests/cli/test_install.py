from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from toolyard.cli.install import command as module
from toolyard.cli.main import toolyard
from toolyard.config.backends import PROVIDER_VARIABLES
from toolyard.core.errors import ToolyardError

PROGRAM = str(Path(sys.executable).with_name("toolyard"))


class Shell:
    """Runs the command in a home and a project of its own."""

    def __init__(self, base):
        self.home, self.project = base / "home", base / "project"
        self.home.mkdir()
        self.project.mkdir()

    def run(self, *words, code=0, color=False):
        ran = CliRunner().invoke(toolyard, [*words], color=color)
        ended, said = ran.exit_code, ran.output
        if isinstance(ran.exception, ToolyardError):  # which the program's entry point prints
            ended, said = 2 if ran.exception.kind in {"config", "validation"} else 1, str(ran.exception)
        elif ran.exception is not None and not isinstance(ran.exception, SystemExit):
            raise ran.exception
        assert ended == code, said
        return said

    def servers(self):
        return json.loads((self.home / ".claude.json").read_text())["mcpServers"]

    def claude(self):
        return self.servers()["toolyard"]


@pytest.fixture
def shell(tmp_path, monkeypatch):
    made = Shell(tmp_path.resolve())
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "QWEN_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir(made.project)
    return made


def test_the_entry_starts_this_very_program_on_the_current_folder(shell):
    said = shell.run("install", "claude")
    args = ["mcp", "--workspace", str(shell.project)]
    assert shell.claude() == {"type": "stdio", "command": PROGRAM, "args": args}
    assert said == (
        f'Added "toolyard" for Claude Code: {shell.home}/.claude.json\n'
        f"  command: {PROGRAM} mcp --workspace {shell.project}\n"
        "  check it with: claude mcp list\n"
    )


def test_what_was_asked_for_is_passed_on_with_absolute_paths(shell):
    (shell.project / "team.yaml").write_text("agents:\n  - id: ada\n  - id: bob\n")
    options = ("--config", "team.yaml", "--workspace", ".", "--agent", "bob", "--tools", "code,workspace")
    shell.run("install", "claude", *options, "--permission-mode", "plan", "--state", "s")
    project = str(shell.project)
    assert shell.claude()["args"] == [
        *("mcp", "--config", f"{project}/team.yaml", "--workspace", project, "--agent", "bob"),
        *("--tools", "code,workspace", "--permission-mode", "plan", "--state", f"{project}/s"),
    ]


def test_a_configuration_that_names_its_workspace_is_left_to_do_so(shell):
    (shell.project / "team.yaml").write_text("toolyard:\n  workspace: ws\n")
    shell.run("install", "claude", "--config", "team.yaml", "--dry-run")
    assert os.listdir(shell.project) == ["team.yaml"]
    shell.run("install", "claude", "--config", "team.yaml")
    assert shell.claude()["args"] == ["mcp", "--config", f"{shell.project}/team.yaml"]


def test_a_name_on_the_path_that_leads_here_is_preferred(shell, monkeypatch):
    folder = shell.home / "bin"
    folder.mkdir()
    (folder / "toolyard").symlink_to(PROGRAM)
    monkeypatch.setenv("PATH", str(folder))
    assert module.own_command() == [f"{folder}/toolyard"]
    (folder / "toolyard").unlink()
    (folder / "toolyard").write_text("#!/bin/sh\n")
    (folder / "toolyard").chmod(0o755)
    assert module.own_command() == [PROGRAM]  # that is another program


def test_without_a_program_of_its_own_the_interpreter_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert module.own_command() == [str(tmp_path / "python"), "-m", "toolyard"]


def test_doing_it_again_says_so_and_changes_nothing(shell):
    shell.run("install", "codex")
    path = shell.home / ".codex" / "config.toml"
    before = path.stat()
    said = shell.run("install", "codex")
    assert said == f'Already installed: "toolyard" in {path}. Nothing was changed.\n'
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


def test_a_dry_run_shows_a_diff_in_colour(shell):
    path = shell.home / ".claude.json"
    path.write_text('{\n  "a": 1\n}\n')
    said = shell.run("install", "claude", "--dry-run")
    assert '-  "a": 1\n+  "a": 1,\n+  "mcpServers": {\n' in said
    assert said.endswith(f"Nothing was written. This would change {path}.\n")
    assert '\x1b[32m+  "mcpServers": {\x1b[0m' in shell.run("install", "claude", "--dry-run", color=True)
    assert os.listdir(shell.home) == [".claude.json"]


def test_a_dry_run_of_taking_it_away_takes_nothing_away(shell):
    path = shell.home / ".claude.json"
    path.write_text('{\n  "a": 1\n}\n')
    shell.run("install", "claude")
    before = path.read_bytes()
    said = shell.run("uninstall", "claude", "--dry-run")
    assert '-  "mcpServers": {\n' in said
    assert said.endswith(f"Nothing was written. This would change {path}.\n")
    assert (path.read_bytes(), sorted(os.listdir(shell.home))) == (
        before,
        [".claude.json", ".claude.json.toolyard-backup"],
    )


def test_a_long_line_is_shortened_and_control_characters_are_not_printed(shell):
    (shell.home / ".claude.json").write_text(json.dumps({"b": "\x7f\u009b", "a": "x" * 5000}, ensure_ascii=False))
    said = shell.run("install", "claude", "--dry-run")
    assert max(map(len, said.splitlines())) < 400
    assert "\x7f" not in said
    assert "\u009b" not in said


def test_json_says_what_was_done(shell):
    (shell.home / ".claude.json").write_text("{}")
    said = json.loads(shell.run("install", "claude", "--json"))
    assert said == {
        "client": "claude",
        "scope": "user",
        "name": "toolyard",
        "path": f"{shell.home}/.claude.json",
        "outcome": "added",
        "dry_run": False,
        "command": [PROGRAM, "mcp", "--workspace", str(shell.project)],
        "backup": f"{shell.home}/.claude.json.toolyard-backup",
        "notes": [],
        "diff": [],
    }
    gone = json.loads(shell.run("uninstall", "claude", "--json"))
    assert (gone["outcome"], gone["backup"]) == ("removed", None)
    assert json.loads(shell.run("uninstall", "claude", "--json"))["outcome"] == "absent"


@pytest.mark.parametrize("which", [(), ("--assistant",)], ids=["tools", "assistant"])
def test_a_project_gets_its_own_file_and_the_user_hears_what_is_left_to_do(shell, which):
    said = shell.run("install", "claude", *which, "--scope", "project")
    assert (shell.project / ".mcp.json").exists()
    assert "note: When opened in the project, Claude Code asks once" in said
    assert "note: the file contains absolute paths of this machine" in said
    assert not (shell.home / ".claude.json").exists()
    shell.run("uninstall", "claude", *which, "--scope", "project")
    assert os.listdir(shell.project) == []


def test_another_entry_of_that_name_is_an_error_with_the_way_out(shell):
    (shell.home / ".claude.json").write_text('{"mcpServers": {"toolyard": {"command": "theirs"}}}')
    assert "--name" in shell.run("install", "claude", code=1)
    shell.run("install", "claude", "--name", "yard")
    shell.run("install", "claude", "--force")
    assert shell.claude()["command"] == PROGRAM


def test_what_the_server_could_not_serve_is_not_installed(shell):
    (shell.project / "team.yaml").write_text("agents:\n  - id: ada\n  - id: bob\n")
    assert "is not a folder" in shell.run("install", "claude", "--workspace", "missing", code=2)
    assert "several agents" in shell.run("install", "claude", "--config", "team.yaml", code=2)
    assert "not a set of tools" in shell.run("install", "claude", "--tools", "cloud", code=2)
    assert "not a valid server name" in shell.run("install", "claude", "--name", "a b", code=2)
    assert "--name my-yard" in shell.run("install", "gemini", "--name", "my_yard", code=2)
    assert "claude" in shell.run("install", "clyde", code=2)
    assert os.listdir(shell.home) == []


def test_a_client_that_loses_tools_of_a_set_is_named(shell):
    assert "drops ours in scripts" in shell.run("install", "gemini", "--tools", "reference")
    assert "note" not in shell.run("install", "codex", "--tools", "reference")


def test_the_assistant_is_a_server_of_its_own(shell):
    said = shell.run("install", "claude", "--assistant")

    assert 'Added "toolyard-assistant"' in said
    assert "GEMINI_API_KEY" in said
    servers = shell.servers()
    assert servers["toolyard-assistant"]["args"][0] == "assistant"
    shell.run("install", "claude")
    assert set(shell.servers()) == {"toolyard", "toolyard-assistant"}
    shell.run("uninstall", "claude", "--assistant")
    assert set(shell.servers()) == {"toolyard"}


@pytest.mark.parametrize(
    ("client", "entry"),
    [("codex", 'env_vars = ["TOOLYARD_MODEL", "GEMINI_API_KEY", '), ("gemini", '"$GEMINI_API_KEY"')],
)
def test_the_key_of_the_assistant_is_named_and_never_written(shell, monkeypatch, client, entry):
    monkeypatch.setenv("GEMINI_API_KEY", "a-key-that-nobody-may-see")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:a-key-that-nobody-may-see@proxy:3128")
    monkeypatch.setenv("TOOLYARD_MODEL", "flash")

    said = shell.run("install", client, "--assistant", "--dry-run")

    assert entry in said
    assert "TOOLYARD_MODEL, GEMINI_API_KEY reach it from the environment" in said
    assert "a-key-that-nobody-may-see" not in said


@pytest.mark.parametrize(("client", "file"), [("codex", ".codex/config.toml"), ("gemini", ".gemini/settings.json")])
def test_a_client_that_hands_on_no_keys_is_told_of_those_that_are_set_tomorrow(shell, monkeypatch, client, file):
    for name in PROVIDER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/ours.pem")

    said = shell.run("install", client, "--assistant")

    written = (shell.home / file).read_text()
    named = ("TOOLYARD_MODEL", *PROVIDER_VARIABLES, "SSL_CERT_FILE", "XDG_STATE_HOME")
    assert [name for name in named if f'"{name}"' not in written] == []
    assert "note: set GEMINI_API_KEY" in said


@pytest.mark.parametrize(
    ("client", "file", "entry"),
    [
        ("claude", ".claude.json", '"timeout": 330000'),
        ("codex", ".codex/config.toml", "tool_timeout_sec = 330"),
        ("gemini", ".gemini/settings.json", '"timeout": 330000'),
        ("qwen", ".qwen/settings.json", '"timeout": 330000'),
        ("opencode", ".config/opencode/opencode.json", '"timeout": 330000'),
    ],
)
def test_a_client_waits_longer_for_the_assistant_than_the_assistant_for_its_model(shell, client, file, entry):
    shell.run("install", client, "--assistant")
    assert entry in (shell.home / file).read_text()

    shell.run("install", client)
    assert (shell.home / file).read_text().count("timeout") == 1  # file tools are quick: the client's default does


def test_a_longer_time_in_the_configuration_or_the_clients_own_settings_counts(shell, tmp_path):
    config = tmp_path / "toolyard.yaml"
    config.write_text("assistant:\n  limits: {seconds: 900}\n")
    file = shell.home / ".codex/config.toml"

    shell.run("install", "codex", "--assistant", "--config", str(config))
    assert "tool_timeout_sec = 930" in file.read_text()
    shell.run("install", "codex", "--assistant")
    assert "tool_timeout_sec = 930" in file.read_text()  # what stands there is longer


def test_what_is_not_for_the_assistant_is_wrong_use(shell):
    assert "do not apply to --assistant" in shell.run("install", "claude", "--assistant", "--tools", "code", code=2)
