from __future__ import annotations

import json

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from toolyard.cli.main import toolyard
from toolyard.config.backends import BACKENDS
from toolyard.config.loader import load_config
from toolyard.config.models import TeamLimits
from toolyard.config.schema import config_schema
from toolyard.config.server_registry import resolve_servers
from toolyard.config.settings import Settings
from toolyard.core.errors import ToolyardError
from toolyard.core.permission_modes import PermissionMode

VALIDATOR = jsonschema.Draft7Validator(config_schema())
SECRET = "ghp_abcdefghijkl1234567890"
GITHUB = {"command": "npx", "args": ["-y", "github-mcp"], "env": {"GITHUB_TOKEN": SECRET, "LOG": "debug"}}


class Shell:
    """Runs the command in a home and a project of its own."""

    def __init__(self, base):
        self.home, self.project = base / "home", base / "project"
        self.home.mkdir()
        self.project.mkdir()

    def run(self, *words, code=0, only="output"):
        ran = CliRunner().invoke(toolyard, ["init", *words])
        ended, said = ran.exit_code, getattr(ran, only)
        if isinstance(ran.exception, ToolyardError):  # which the program's entry point prints
            ended, said = 2 if ran.exception.kind in {"config", "validation"} else 1, str(ran.exception)
        elif ran.exception is not None and not isinstance(ran.exception, SystemExit):
            raise ran.exception
        assert ended == code, said
        return said

    def write(self, name, content, *, at_home=False):
        path = (self.home if at_home else self.project) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def config(self, name="toolyard.yaml"):
        path = self.project / name
        written = yaml.safe_load(path.read_text())
        VALIDATOR.validate(written)
        return load_config(str(path), env={})

    @property
    def registry(self):
        return self.home / ".config/toolyard/servers.yaml"


@pytest.fixture
def shell(tmp_path, monkeypatch):
    made = Shell(tmp_path.resolve())
    gone = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "QWEN_HOME", "XDG_CONFIG_HOME")
    for name in (*gone, *(key for kind in BACKENDS.values() for key in kind.key_variables)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.chdir(made.project)
    return made


# A first file


def test_one_agent_is_ready_to_work_in_a_folder_of_its_own(shell):
    said = shell.run()
    (agent,) = shell.config().agents
    assert (agent.id, agent.backend.type, agent.backend.model) == ("helper", "gemini", "gemini-2.5-flash")
    assert (agent.backend.cwd, agent.backend.permission_mode) == ("project", PermissionMode.STRICT)
    assert said.splitlines()[0] == f"Wrote {shell.project}/toolyard.yaml"
    assert "note: Set GEMINI_API_KEY or GOOGLE_API_KEY to your key for the Gemini API." in said
    assert f"toolyard run --check {shell.project}/toolyard.yaml" in said


@pytest.mark.parametrize("words", [(), ("--team",)], ids=["one", "team"])
def test_the_file_says_what_the_mode_means(shell, words):
    shell.run(*words)
    text = (shell.project / "toolyard.yaml").read_text()
    assert (
        "# `permission_mode: strict` lets an agent read and write in its folder, and run commands in the sandbox"
        in text
    )


def test_the_api_whose_key_is_set_is_the_one_to_start_with(shell, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "hush")
    said = shell.run()
    assert shell.config().agents[0].backend.type == "claude"
    assert "note: Set" not in said


@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_every_backend_can_be_chosen(shell, name):
    shell.run("--backend", name)
    assert shell.config().agents[0].backend.kind is BACKENDS[name]


def test_a_backend_that_has_no_usual_model_says_what_to_fill_in(shell):
    said = shell.run("--backend", "ollama")
    assert shell.config().agents[0].backend.model == "CHANGE_ME"
    assert "Replace CHANGE_ME by the name of a model of your Ollama." in said


def test_an_unknown_backend_is_answered_with_what_was_meant(shell):
    assert shell.run("--backend", "gemni", code=2) == "backend: 'gemni' is not a backend. Did you mean \"gemini\"?"
    assert list(shell.project.iterdir()) == []


def test_a_team_has_two_agents_in_one_workspace(shell):
    shell.run("--team")
    config = shell.config()
    assert [agent.id for agent in config.agents] == ["gemini_1", "gemini_2"]
    assert [(each.backend.cwd, each.backend.permission_mode) for each in config.agents] == [
        (None, PermissionMode.STRICT),
        (None, PermissionMode.STRICT),
    ]
    assert config.toolyard.workspace == "workspace"
    assert config.orchestrator.limits == TeamLimits()


def test_several_backends_are_a_team(shell):
    shell.run("--backend", "gemini", "--backend", "claude-code", "--output", "team.yaml")
    assert [(agent.id, agent.backend.type) for agent in shell.config("team.yaml").agents] == [
        ("gemini", "gemini"),
        ("claude_code", "claude_code"),
    ]


def test_a_file_that_is_there_is_not_overwritten(shell):
    there = shell.write("toolyard.yaml", "ui: {display_type: simple}\n")
    said = shell.run(code=1)
    assert "already exists; nothing was written. Name another file with --output" in said
    assert there.read_text() == "ui: {display_type: simple}\n"


def test_force_replaces_it_and_keeps_a_copy(shell):
    shell.write("toolyard.yaml", "ui: {display_type: simple}\n")
    said = shell.run("--force")
    assert said.startswith(f"Replaced {shell.project}/toolyard.yaml")
    assert (shell.project / "toolyard.yaml.toolyard-backup").read_text() == "ui: {display_type: simple}\n"
    assert len(shell.config().agents) == 1


@pytest.mark.parametrize("exists", [True, False])
def test_force_does_not_write_through_a_link(shell, exists):
    victim = shell.project.parent / "victim"
    if exists:
        victim.write_text("mine\n")
    (shell.project / "toolyard.yaml").symlink_to(victim)
    said = shell.run("--force", code=1)
    assert f"is a symbolic link to {victim}; nothing was written" in said
    assert victim.exists() is exists
    assert not exists or victim.read_text() == "mine\n"


def test_a_dry_run_writes_nothing_and_shows_what_would_load(shell):
    text = shell.run("--dry-run", only="stdout")
    assert list(shell.project.iterdir()) == []
    shell.write("toolyard.yaml", text)
    assert len(shell.config().agents) == 1


def test_the_schema_is_printed_for_editors(shell):
    assert json.loads(shell.run("--schema")) == config_schema()
    assert list(shell.project.iterdir()) == []


def test_help_shows_examples(shell):
    assert "toolyard init --backend claude --from claude" in shell.run("--help")


# Servers of other programs


def test_servers_of_a_file_are_in_the_new_configuration_without_their_secrets(shell):
    source = shell.write(".mcp.json", {"mcpServers": {"github": GITHUB}})
    said = shell.run("--from", ".mcp.json")
    config = shell.config()
    (entry,) = config.servers
    assert (entry.name, entry.command_line) == ("github", ("npx", "-y", "github-mcp"))
    assert entry.env == {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "LOG": "debug"}
    assert config.toolyard.execution_mode == "filesystem_first"
    assert SECRET not in said + (shell.project / "toolyard.yaml").read_text()
    assert f"GITHUB_TOKEN                 github: `env.GITHUB_TOKEN` in {source}" in said


CODEX = f"""
model = "x"
[mcp_servers.github]
command = "npx"
args = ["-y", "github-mcp"]
env = {{GITHUB_TOKEN = "{SECRET}", LOG = "debug"}}
"""
CLIENT_FILES = {
    "claude": (".claude.json", {"mcpServers": {"github": GITHUB}}),
    "gemini": (".gemini/settings.json", {"theme": "x", "mcpServers": {"github": GITHUB}}),
    "cursor": (".cursor/mcp.json", {"mcpServers": {"github": GITHUB}}),
    "qwen": (".qwen/settings.json", {"mcpServers": {"github": GITHUB}}),
    "vscode": (".config/Code/User/mcp.json", {"servers": {"github": {"type": "stdio", **GITHUB}}}),
    "opencode": (
        ".config/opencode/opencode.json",
        {
            "agent": {"build": {}},
            "mcp": {
                "github": {"type": "local", "command": ["npx", "-y", "github-mcp"], "environment": GITHUB["env"]}
            },
        },
    ),
    "codex": (
        ".codex/config.toml",
        CODEX,
    ),
}


@pytest.mark.parametrize("client", sorted(CLIENT_FILES))
def test_the_servers_of_every_client_are_found_by_its_name(shell, client):
    shell.write(*CLIENT_FILES[client], at_home=True)
    shell.run("--from", client)
    (entry,) = shell.config().servers
    assert entry.command_line == ("npx", "-y", "github-mcp")
    assert entry.env == {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "LOG": "debug"}


def test_a_clients_servers_of_this_project_are_found_as_well(shell):
    projects = {str(shell.project): {"mcpServers": {"local": {"command": "local-mcp"}}}}
    shell.write(".claude.json", {"projects": projects}, at_home=True)
    shell.write(".mcp.json", {"mcpServers": {"shared": {"command": "shared-mcp"}}})
    shell.run("--from", "claude")
    assert [entry.name for entry in shell.config().servers] == ["local", "shared"]


def test_several_sources_come_together_and_the_first_of_a_name_counts(shell):
    shell.write(".mcp.json", {"mcpServers": {"a": {"command": "one"}, "b": {"command": "b"}}})
    shell.write(".cursor/mcp.json", {"mcpServers": {"a": {"command": "two"}, "c": {"url": "https://c.example/mcp"}}})
    said = shell.run("--from", ".mcp.json", "--from", "cursor")
    assert [(entry.name, entry.command) for entry in shell.config().servers] == [
        ("a", "one"),
        ("b", "b"),
        ("c", None),
    ]
    assert f'server "a": is also in {shell.project}/.mcp.json with different settings; that entry is used.' in said


def test_what_cannot_be_used_is_told_and_the_others_go_on(shell):
    ours = {"command": "toolyard", "args": ["mcp"]}
    servers = {"broken": {"args": ["x"]}, "toolyard": ours, "good": {"command": "good", "autoApprove": ["x"]}}
    shell.write(".mcp.json", {"mcpServers": servers})
    said = shell.run("--from", ".mcp.json")
    assert [entry.name for entry in shell.config().servers] == ["good"]
    assert "left out: " in said
    assert 'server "broken": cannot be used: expected either `command`' in said
    assert 'server "toolyard": is Toolyard itself' in said
    assert "`autoApprove` is ignored." in said


def test_files_beside_a_server_are_found_from_the_new_place(shell):
    shell.write("elsewhere/run.sh", "")
    shell.write("elsewhere/.mcp.json", {"mcpServers": {"x": {"command": "./run.sh"}, "y": {"command": "npx"}}})
    shell.run("--from", "elsewhere/.mcp.json")
    assert {entry.name: entry.cwd for entry in shell.config().servers} == {
        "x": f"{shell.project}/elsewhere",
        "y": None,
    }


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("cursro", "there is no file or client named 'cursro'. Did you mean \"cursor\"?"),
        ("gone.json", "cannot be read (No such file or directory)"),
        ("claude", "Claude Code has no MCP servers here: looked in"),
    ],
)
def test_a_source_that_is_not_there_is_an_error_and_nothing_is_written(shell, source, said):
    assert said in shell.run("--from", source, code=2)
    assert list(shell.project.iterdir()) == []


def test_json_tells_the_same_without_secrets(shell):
    source = str(shell.write(".mcp.json", {"mcpServers": {"github": GITHUB, "broken": {}}}))
    said = shell.run("--from", ".mcp.json", "--json")
    found = json.loads(said)
    assert SECRET not in said
    assert found["path"] == f"{shell.project}/toolyard.yaml"
    assert (found["outcome"], found["dry_run"], found["backup"], found["text"]) == ("created", False, None, None)
    assert (found["agents"], found["servers"], found["from"]) == (["helper"], ["github"], [source])
    assert found["variables"] == [
        {"name": "GITHUB_TOKEN", "server": "github", "place": "env.GITHUB_TOKEN", "file": source}
    ]
    assert [(each["server"], each["severity"]) for each in found["problems"]] == [("broken", "error")]


# The user's own servers file


def test_servers_go_into_the_users_own_file_where_configurations_find_them_by_name(shell):
    shell.write(".mcp.json", {"mcpServers": {"github": GITHUB}})
    said = shell.run("--from", ".mcp.json", "--servers")
    assert said.startswith(f"Wrote {shell.registry}")
    assert not (shell.project / "toolyard.yaml").exists()
    config = load_config(str(shell.write("c.yaml", "available_mcp_servers: [github]\n")), env={})
    (entry,) = resolve_servers(config, Settings.from_environment()).entries
    assert entry.env["GITHUB_TOKEN"] == "${GITHUB_TOKEN}"
    assert SECRET not in shell.registry.read_text()


def test_what_stands_in_that_file_stays_with_its_comments(shell):
    before = "# mine\ngithub: {command: my-own}  # keep\n"
    shell.write(".config/toolyard/servers.yaml", before, at_home=True)
    shell.write(".mcp.json", {"mcpServers": {"github": GITHUB, "weather": {"command": "npx"}}})
    said = shell.run("--from", ".mcp.json", "--servers")
    assert shell.registry.read_text() == before + "weather: {command: npx}\n"
    assert f'"github" is already in {shell.registry} with other settings, and was not changed' in said
    assert "GITHUB_TOKEN" not in said


def test_doing_it_again_adds_nothing(shell):
    shell.write(".mcp.json", {"mcpServers": {"github": GITHUB}})
    shell.run("--from", ".mcp.json", "--servers")
    before = shell.registry.read_text()
    assert shell.run("--from", ".mcp.json", "--servers").startswith(f"Nothing to add to {shell.registry}")
    assert shell.registry.read_text() == before


def test_force_replaces_an_entry_of_that_name_and_keeps_the_file_as_it_was(shell):
    before = "github: {command: my-own}\nother: {command: other}\n"
    shell.write(".config/toolyard/servers.yaml", before, at_home=True)
    shell.write(".mcp.json", {"mcpServers": {"github": GITHUB}})
    shell.run("--from", ".mcp.json", "--servers", "--force")
    written = yaml.safe_load(shell.registry.read_text())
    assert (written["github"]["command"], written["other"]) == ("npx", {"command": "other"})
    assert shell.registry.with_name("servers.yaml.toolyard-backup").read_text() == before


@pytest.mark.parametrize(
    "before",
    ["{github: {command: my-own}}\n", "mcpServers:\n  github: {command: my-own}\n", "- {name: x, command: y}\n"],
)
def test_a_file_that_cannot_be_added_to_is_left_alone(shell, before):
    shell.write(".config/toolyard/servers.yaml", before, at_home=True)
    shell.write(".mcp.json", {"mcpServers": {"weather": {"command": "npx"}}})
    assert "has a format to which entries cannot be appended; nothing was changed" in shell.run(
        "--from", ".mcp.json", "--servers", code=1
    )
    assert shell.registry.read_text() == before


def test_an_empty_file_and_one_of_comments_are_begun(shell):
    shell.write(".config/toolyard/servers.yaml", "# nothing yet\n", at_home=True)
    shell.write(".mcp.json", {"mcpServers": {"weather": {"command": "npx"}}})
    shell.run("--from", ".mcp.json", "--servers")
    assert shell.registry.read_text() == "# nothing yet\nweather: {command: npx}\n"


def test_a_json_file_of_the_users_is_written_anew_only_when_forced(shell):
    path = shell.write(".config/toolyard/servers.json", {"a": {"command": "a"}}, at_home=True)
    shell.write(".mcp.json", {"mcpServers": {"weather": {"command": "npx"}}})
    shell.run("--from", ".mcp.json", "--servers", code=1)
    shell.run("--from", ".mcp.json", "--servers", "--force")
    assert json.loads(path.read_text()) == {"a": {"command": "a"}, "weather": {"command": "npx"}}


@pytest.mark.parametrize("words", [(), ("--from", "x", "--team"), ("--from", "x", "--output", "y")])
def test_the_servers_file_is_made_from_other_files_alone(shell, words):
    assert "servers: can be used with --from only" in shell.run("--servers", *words, code=2)
