"""Which configuration counts and which folder is meant."""

import os

import pytest

from toolyard.cli.common.resolve_workspace import ResolvedWorkspace, resolve_workspace
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.errors import ConfigError
from toolyard.core.permission_modes import PermissionMode
from toolyard.policy.builder import policy_for


@pytest.fixture
def project(tmp_path, monkeypatch):
    folder = tmp_path.resolve() / "project"
    (folder / "sub").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def write(folder, text, name="toolyard.yaml"):
    (folder / name).write_text(text)
    return str(folder / name)


def test_without_a_file_the_defaults_serve_the_current_folder(project):
    assert resolve_workspace(None, None) == ResolvedWorkspace(Config(), str(project))


def test_the_workspace_that_is_named_goes_first(project):
    write(project, "toolyard: {workspace: elsewhere}\nagents: [{id: a, backend: {cwd: sub}}]\n")

    assert resolve_workspace("sub", str(project / "toolyard.yaml")).workspace == str(project / "sub")


@pytest.mark.parametrize(
    ("text", "agent", "workspace"),
    [
        ("agents: [{id: a, backend: {cwd: sub}}]\ntoolyard: {workspace: other}\n", None, "sub"),
        ("agents: [{id: a, backend: {cwd: sub}}, {id: b, backend: {cwd: deep/b}}]\n", "b", "deep/b"),
        ("toolyard: {workspace: other}\n", None, "other"),
        ("toolyard: {workspace: other}\nagents: [{id: a}]\n", None, "other/agents/a/workspace"),
        ("toolyard: {workspace: other}\nagents: [{id: a}, {id: b}]\n", "b", "other/agents/b/workspace"),
        ("toolyard: {workspace: other}\nagents: [{id: a}, {id: b}]\n", None, "other"),
        ("ui: {display_type: simple}\n", None, ""),
    ],
    ids=[
        *("the agent's", "the chosen agent's", "the file's", "the only agent's in the root", "its own in the root"),
        *("the root for all of them", "the current folder"),
    ],
)
def test_then_the_agents_folder_then_the_files_beside_the_file(project, text, agent, workspace):
    write(project, text)

    assert resolve_workspace(None, None, agent).workspace == os.path.join(str(project), workspace).rstrip("/")


def test_relative_folders_of_a_named_file_start_beside_it(project, tmp_path, monkeypatch):
    config = write(project, "toolyard: {workspace: sub}\n", "mine.yaml")
    monkeypatch.chdir(tmp_path)

    assert resolve_workspace(None, config).workspace == str(project / "sub")


def test_a_found_file_may_tighten(project):
    write(
        project,
        "permissions: {mode: plan, deny: ['Read(secret/**)'], ask: [Write], presets: [secrets]}\n"
        "toolyard: {workspace: sub}\n",
    )

    place = resolve_workspace(None, None)

    assert (place.config.permissions.mode, place.workspace) == (PermissionMode.PLAN, str(project / "sub"))


@pytest.mark.parametrize("mode", ["strict", "plan", "acceptEdits", "default"])
def test_modes_that_refuse_or_ask_are_taken_from_a_found_file(project, mode):
    write(project, f"permissions: {{mode: {mode}}}\n")

    assert resolve_workspace(None, None).config.permissions.mode == mode


WIDENING = {
    "permission mode bypassPermissions": "permissions: {mode: bypassPermissions}",
    "permission mode moderate": "agents: [{id: a, backend: {permission_mode: moderate}}]",
    "allow rules": "permissions: {allow: [Write]}",
    "further roots": "permissions: {moderate_roots: [/]}",
    "context paths": "orchestrator: {context_paths: [{path: /etc}]}",
    "code without a sandbox": "toolyard: {code_execution: {mode: none}}",
    "a weaker sandbox for code": "toolyard: {code_execution: {minimum: landlock}}",
    "destructive commands without a question": "toolyard: {code_execution: {allow_destructive: true}}",
    "a network for code": "toolyard: {code_execution: {docker: {network: host}}}",
    "a workspace outside its own folder": "toolyard: {workspace: ..}",
    "MCP servers": "available_mcp_servers: [{name: x, command: evil}]",
    "the memory of other agents": "agents: [{id: a, memory: {allow_read_from: [b]}}, {id: b}]",
    "folders that are emptied at the start": "agents: [{id: a, backend: {fresh: true}}]",
    "skill_folders outside its own folder": "toolyard: {skill_folders: [~/.claude/skills]}",
    "snapshot_storage outside its own folder": "orchestrator: {snapshot_storage: ../kept}",
    "agent_temporary_workspace outside its own folder": "orchestrator: {agent_temporary_workspace: /srv/shared}",
    "a webhook": "toolyard: {webhook: {url: 'http://127.0.0.1:9000/'}}",
    "custom tools": "toolyard: {available_custom_tools: [web.screenshot]}",
}


@pytest.mark.parametrize("text", ["automatic: false", "keep: 1", "days: 0.001", "ignore: [data/]"])
def test_a_found_file_cannot_have_what_agents_do_forgotten(project, text):
    path = write(project, f"snapshots: {{{text}}}\n")

    with pytest.raises(ConfigError, match="fewer snapshots to undo with"):
        resolve_workspace(None, None)
    resolve_workspace(None, path)
    write(project, "snapshots: {keep: 1000, days: 90}\n")
    resolve_workspace(None, None)


@pytest.mark.parametrize(("reason", "text"), WIDENING.items(), ids=WIDENING)
def test_a_found_file_that_widens_is_refused_and_a_named_one_is_trusted(project, reason, text):
    path = write(project, text + "\n")

    with pytest.raises(ConfigError) as caught:
        resolve_workspace(None, None)

    assert reason in caught.value.message
    assert caught.value.where == path
    assert f"--config {path}" in caught.value.hint
    assert resolve_workspace(None, path).config.source == path


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("higher limits for calls", "limits: {file_bytes: 99999999999}"),
        ("higher limits for calls", "limits: {call_seconds: 99999}"),
        ("higher limits for calls", "limits: {overwrite_unread: true}"),
        ("threads of the assistant that go sooner", "assistant: {thread_days: 1.0e-8}"),
        ("threads of the assistant that go sooner", "assistant: {thread_turns: 1}"),
    ],
)
def test_a_found_file_neither_raises_limits_nor_has_threads_forgotten(project, reason, text):
    path = write(project, text)
    with pytest.raises(ConfigError, match=reason):
        resolve_workspace(None, None)
    resolve_workspace(None, path)


def test_a_found_file_may_lower_limits(project):
    write(project, "limits: {file_bytes: 1000, call_seconds: 5}\nassistant: {limits: {seconds: 5}}")
    assert resolve_workspace(None, None).config.limits.file_bytes == 1000


KEY = "super-secret-key-0123456789"
SHOWN = {
    "a rule": 'permissions: {deny: ["Read(a[.${KEY}]py)"]}',
    "a rule with a default": 'permissions: {deny: ["Read(${KEY:-x})"]}',
    "a mode": 'permissions: {mode: "${WORD}"}',
    "a protected path": 'permissions: {protected_paths: ["${env:KEY}"]}',
    "a workspace": 'toolyard: {workspace: "${KEY}"}',
    "a folder of an agent": 'agents: [{id: a, backend: {cwd: "${KEY}"}}]',
    "the name of an agent": 'agents: [{id: "${KEY}"}]',
    "a tool's name": 'agents: [{id: a, backend: {exclude_tools: ["${KEY}"]}}]',
    "a locale": 'assistant: {locale: "${KEY}"}',
    "a number": 'limits: {file_bytes: "${DIGITS}"}',
    "a pattern to ignore": 'snapshots: {ignore: ["${KEY}"]}',
}


@pytest.mark.parametrize("text", SHOWN.values(), ids=SHOWN)
def test_a_file_that_was_merely_found_takes_no_variables(project, monkeypatch, text):
    monkeypatch.setenv("KEY", KEY)
    path = write(project, text)
    with pytest.raises(ConfigError, match="is not trusted") as caught:
        resolve_workspace(None, None)
    assert caught.value.where == f"{path}:1"
    assert f"--config {path}" in caught.value.hint
    assert KEY not in str(caught.value) + caught.value.hint


def test_what_only_runs_use_stays_as_written_in_a_found_file(project, monkeypatch):
    monkeypatch.setenv("KEY", KEY)
    write(
        project,
        'agents: [{id: a, system_message: "Say ${WORD}", backend: {type: ollama, model: "${M:-x}", '
        'base_url: "http://${KEY}", api_key: "${KEY}"}}]\n'
        'tracing: {endpoint: "http://${KEY}", headers: {x: "${KEY}"}}',
    )
    config = resolve_workspace(None, None).config
    backend = config.agents[0].backend
    assert (config.agents[0].system_message, backend.model) == ("Say ${WORD}", "${M:-x}")
    assert backend.api_key is not None
    assert backend.api_key.get_secret_value() == "${KEY}"
    assert KEY not in f"{config!r}{config.tracing.headers}"


def test_a_found_file_may_spell_the_signs_of_a_variable(project, monkeypatch):
    monkeypatch.setenv("KEY", KEY)
    write(project, 'permissions: {protected_paths: ["$${KEY}"]}')
    assert resolve_workspace(None, None).config.permissions.protected_paths == ("${KEY}",)


@pytest.mark.parametrize(
    "text",
    [
        "available_mcp_servers: [slack]",
        "toolyard: {available_mcp_servers: {x: {command: evil}}}",
        "toolyard: {server_files: [.mcp.json]}",
        "agents: [{id: a, backend: {mcp_servers: [{name: x, command: evil}]}}]",
    ],
)
def test_servers_declared_anywhere_in_a_found_file_are_refused(project, text):
    write(project, text + "\n")

    with pytest.raises(ConfigError, match="MCP servers"):
        resolve_workspace(None, None)


def test_a_server_file_that_is_merely_found_is_not_read(project):
    (project / ".mcp.json").write_text('{"mcpServers": {"x": {"command": "evil"}}}')

    assert resolve_workspace(None, None).config.servers == ()


def test_folders_of_a_found_file_beneath_it_are_taken(project):
    write(
        project,
        "toolyard: {skill_folders: [.claude/skills]}\n"
        "orchestrator: {snapshot_storage: ../project/kept, agent_temporary_workspace: shared}\n",
    )

    assert resolve_workspace(None, None).config.toolyard.skill_folders == (".claude/skills",)


@pytest.mark.parametrize("key", ["allow_read_from", "allow_write_to"])
def test_rights_to_the_memory_of_an_agent_that_is_not_there_are_an_error(project, key):
    path = write(
        project, f"agents:\n  - id: agent_a\n    memory:\n      {key}:\n        - agent_c\n  - id: agent_b\n"
    )

    with pytest.raises(ConfigError, match=f'`{key}` of agent "agent_a" names "agent_c"') as caught:
        resolve_workspace(None, path, "agent_a")

    assert caught.value.where == f"{path}:5"
    assert caught.value.hint.startswith("Did you mean")


def test_a_preset_that_allows_is_an_allow_rule(project):
    write(project, "permissions: {presets: [readonly-commands]}\n")

    with pytest.raises(ConfigError, match="allow rules"):
        resolve_workspace(None, None)


@pytest.mark.parametrize("where", ["/", "../..", "link", "sub/../.."])
@pytest.mark.parametrize("key", ["toolyard: {{workspace: {}}}", "agents: [{{id: a, backend: {{cwd: {}}}}}]"])
def test_a_found_file_cannot_choose_a_workspace_outside_its_folder(project, key, where):
    os.symlink("/", project / "link")
    write(project, key.format(where) + "\n")

    with pytest.raises(ConfigError, match="a workspace outside its own folder"):
        resolve_workspace(None, None)


def test_a_workspace_the_user_names_may_lie_anywhere(project, tmp_path):
    write(project, "toolyard: {workspace: sub}\n")

    assert resolve_workspace(str(project), None).workspace == str(project)


@pytest.mark.parametrize("where", ["..", "/", "../../.claude"])
def test_a_found_file_cannot_keep_skills_outside_its_folder_whoever_chose_the_workspace(project, where):
    agents = "agents: [{id: a, backend: {cwd: sub}}]\n"
    write(project, f"toolyard: {{workspace: {where}}}\n{agents}")

    for named in (str(project), None):
        with pytest.raises(ConfigError, match="skills outside its own folder"):
            resolve_workspace(named, None, "a")


def test_the_file_of_the_named_workspace_is_the_one_that_is_found(project, tmp_path):
    write(project / "sub", "permissions: {mode: plan}\n")
    write(project, "permissions: {mode: default}\n")

    assert resolve_workspace(str(project / "sub"), None).config.permissions.mode == PermissionMode.PLAN


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("toolyard:\n  code_execution:\n    allowed_hosts:\n      - a.example\n      - http://b.example\n", 5),
        ("massgen: {code_execution: {allowed_hosts: [\n'a b']}}\n", 2),
        ("permissions:\n  presets: [\n  read-everythng]\n", 3),
        ("permissions:\n  deny:\n    - Read(a)\n    - Read(src\n", 4),
        ("permissions:\n  allow: [Reed(a)]\n", 2),
    ],
    ids=["a host", "a host in the other spelling", "a preset", "a rule", "a rule's tool"],
)
def test_a_value_that_is_found_wrong_later_names_its_line_too(project, tmp_path, text, line):
    path = write(project, text)
    settings = Settings(*(str(tmp_path / name) for name in ("home", "state", "temp", "docs")))
    with pytest.raises(ConfigError) as caught:
        policy_for(resolve_workspace(None, path).config, settings, str(project))
    assert caught.value.where == f"{path}:{line}"
    assert caught.value.message.startswith(f"{path}:{line}: ")
    assert caught.value.hint


TEAM = "agents: [{id: a, backend: {cwd: sub}}, {id: b}]\n"


@pytest.mark.parametrize("text", [TEAM, "toolyard: {workspace: other}\n" + TEAM], ids=["apart", "with a root"])
def test_of_several_agents_none_is_guessed_where_one_acts(project, text):
    path = write(project, text)

    for workspace in (None, str(project)):
        with pytest.raises(ConfigError, match=r"several agents are configured \(a, b\)") as caught:
            resolve_workspace(workspace, path, acts_as_agent=True)
    assert caught.value.hint == "Pass one of them: --agent a"
    assert resolve_workspace(None, path, "a", acts_as_agent=True).workspace == str(project / "sub")


def test_whoever_only_looks_needs_a_folder_that_is_certain(project):
    path = write(project, TEAM)

    with pytest.raises(ConfigError, match="their own folders"):
        resolve_workspace(None, path)
    assert resolve_workspace(str(project), path).workspace == str(project)
    shared = write(project, "toolyard: {workspace: other}\n" + TEAM)
    assert resolve_workspace(None, shared).workspace == str(project / "other")
    alike = write(project, "agents: [{id: a}, {id: b}]\n")
    assert resolve_workspace(None, alike).workspace == str(project)
