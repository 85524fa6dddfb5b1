from __future__ import annotations

import dataclasses
import os
import textwrap
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.config.loader import MAX_CONFIG_BYTES, find_config, load_config
from toolyard.config.models import (
    Agent,
    Backend,
    CodeExecution,
    Config,
    ContextPath,
    Docker,
    LimitsSection,
    Memory,
    Orchestrator,
    Permissions,
    SearchTools,
    ServerEntry,
    ToolyardSection,
    Ui,
)
from toolyard.core.errors import ConfigError
from toolyard.core.limits import Limits
from toolyard.core.permission_modes import Access, PermissionMode


@pytest.fixture
def write(tmp_path):
    def _write(text: str) -> str:
        path = tmp_path / "toolyard.yaml"
        path.write_text(textwrap.dedent(text).lstrip("\n"))
        return str(path)

    return _write


def refused(path: str, env: dict[str, str] | None = None) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_config(path, env={} if env is None else env)
    return caught.value


FULL = """
massgen:
  workspace: shared
  execution_mode: filesystem_first
  code_execution: {enabled: true, mode: docker, docker: {image: busybox, network: none}}
  in_context_tools: {filesystem: [read_file, write_file], code_execution: "*"}
  available_mcp_servers: [gmail, {name: weather, command: [npx, -y], args: [weather]}]
  available_custom_tools: [web.screenshot]
  search_tools: {enable_ripgrep: true, enable_ast_grep: false, enable_semtools: true}
agents:
  - id: agent_a
    backend:
      type: gemini
      model: gemini-2.5-flash
      cwd: work
      permission_mode: acceptEdits
      mcp_servers:
        files: {type: stdio, command: files, env: {PORT: 80}}
        remote: {url: "https://example.org/mcp", headers: {Authorization: "Bearer ${TOKEN}"}, timeout: 3}
      allowed_tools: [a]
      exclude_tools: [b]
    system_message: Be brief.
    memory: {allow_read_from: [agent_b], allow_write_to: []}
  - id: agent_b
orchestrator:
  snapshot_storage: snaps
  agent_temporary_workspace: temp
  context_paths: [{path: ../data, permission: write, protected_paths: [keep]}]
ui: {display_type: rich_terminal, logging_enabled: false}
available_mcp_servers: [slack]
permissions:
  mode: plan
  allow: ["Read(src/**)"]
  ask: [Bash]
  deny: ["Read(.env)"]
  presets: [secrets]
  protected_paths: [docs]
  moderate_roots: [/data]
limits: {file_bytes: 5, call_seconds: 1.5}
"""


def test_the_whole_file_becomes_types(write):
    path = write(FULL)
    assert load_config(path, env={"TOKEN": "t"}) == Config(
        toolyard=ToolyardSection(
            workspace="shared",
            execution_mode="filesystem_first",
            code_execution=CodeExecution(mode="docker", docker=Docker(image="busybox")),
            in_context_tools={"filesystem": ("read_file", "write_file"), "code_execution": "*"},
            available_mcp_servers=(
                "gmail",
                ServerEntry(name="weather", command=("npx", "-y"), args=("weather",)),
            ),
            available_custom_tools=("web.screenshot",),
            search_tools=SearchTools(enable_ast_grep=False, enable_semtools=True),
        ),
        agents=(
            Agent(
                id="agent_a",
                backend=Backend(
                    type="gemini",
                    model="gemini-2.5-flash",
                    cwd="work",
                    permission_mode=PermissionMode.ACCEPT_EDITS,
                    mcp_servers=(
                        ServerEntry(name="files", type="stdio", command="files", env={"PORT": "80"}),
                        ServerEntry(
                            name="remote",
                            url="https://example.org/mcp",
                            headers={"Authorization": "Bearer ${TOKEN}"},
                            timeout=3.0,
                        ),
                    ),
                    allowed_tools=("a",),
                    exclude_tools=("b",),
                ),
                system_message="Be brief.",
                memory=Memory(allow_read_from=("agent_b",)),
            ),
            Agent(id="agent_b"),
        ),
        orchestrator=Orchestrator(
            snapshot_storage="snaps",
            agent_temporary_workspace="temp",
            context_paths=(ContextPath(path="../data", permission=Access.WRITE, protected_paths=("keep",)),),
        ),
        ui=Ui(logging_enabled=False),
        available_mcp_servers=("slack",),
        permissions=Permissions(
            mode=PermissionMode.PLAN,
            allow=("Read(src/**)",),
            ask=("Bash",),
            deny=("Read(.env)",),
            presets=("secrets",),
            protected_paths=("docs",),
            moderate_roots=("/data",),
        ),
        limits=LimitsSection(file_bytes=5, call_seconds=1.5),
    ).model_copy(update={"source": path})


def test_servers_declared_anywhere_are_available_and_their_transport_is_told(write):
    config = load_config(write(FULL), env={"TOKEN": "t"})
    assert [s if isinstance(s, str) else s.name for s in config.servers] == ["gmail", "weather", "slack"]
    entries = [s for s in config.agents[0].backend.mcp_servers if isinstance(s, ServerEntry)]
    assert [entry.transport for entry in entries] == ["stdio", "streamable-http"]


def test_secrets_of_a_server_are_not_in_its_repr(write):
    assert "Bearer" not in repr(load_config(write(FULL), env={"TOKEN": "t"}))


def test_no_file_gives_the_defaults():
    assert load_config(None) == Config()


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "ui:\nlimits:\nagents:\n"])
def test_an_empty_file_gives_the_defaults(write, text):
    path = write(text)
    assert load_config(path) == Config().model_copy(update={"source": path})


def test_one_agent_may_be_written_without_a_list(write):
    config = load_config(write("agent: {id: solo, backend: {cwd: work}}"))
    assert config.agents == (Agent(id="solo", backend=Backend(cwd="work")),)


def test_the_limits_of_the_file_are_the_limits_of_the_core():
    assert LimitsSection().to_limits() == Limits()
    assert set(LimitsSection.model_fields) == {field.name for field in dataclasses.fields(Limits)}


def test_a_missing_file_is_a_plain_error(tmp_path):
    error = refused(str(tmp_path / "nope.yaml"))
    assert str(error) == (
        f"{tmp_path}/nope.yaml: cannot be read (No such file or directory). "
        "Check the path given to --config, or leave it out to use the defaults."
    )


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("toolyrd: {}\n", 1, 'unknown key "toolyrd". Did you mean "toolyard"?'),
        ("masgen: {}\n", 1, 'unknown key "masgen". Did you mean "massgen"?'),
        (
            "toolyard:\n  code_execution:\n    enabeld: false\n",
            3,
            'unknown key "enabeld" in "toolyard.code_execution". Did you mean "enabled"?',
        ),
        (
            "agents:\n  - id: a\n    backend:\n      permision_mode: plan\n",
            4,
            'unknown key "permision_mode" in "agents[0].backend". Did you mean "permission_mode"?',
        ),
        (
            "agent:\n  backend:\n    mcp_servers:\n      a: {command: x}\n      b:\n        comand: y\n",
            6,
            'unknown key "comand" in "agent.backend.mcp_servers.b". Did you mean "command"?',
        ),
        (
            "available_mcp_servers:\n  - gmail\n  - name: x\n    comand: y\n",
            4,
            'unknown key "comand" in "available_mcp_servers[1]". Did you mean "command"?',
        ),
        ("massgen:\n  zzz: 1\n", 2, 'unknown key "zzz" in "massgen".'),
        ("agent:\n  zzz: 1\n", 2, 'unknown key "zzz" in "agent".'),
        ("limits: {file_bites: 1}\n", 1, 'Did you mean "file_bytes"?'),
        ("source: x\n", 1, 'unknown key "source"'),
        ("ui:\n  zzz: 1\n", 2, "Known here: display_type, logging_enabled."),
        ("zzz:\n", 1, 'unknown key "zzz"'),
    ],
)
def test_an_unknown_key_names_its_line_and_the_likely_intention(write, text, line, said):
    path = write(text)
    error = refused(path)
    assert error.where == f"{path}:{line}"
    assert said in str(error)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("- a\n", 1, "the file must be a mapping of keys"),
        ("ui: [1]\n", 1, '"ui": expected a mapping, found a list.'),
        ("agents: 5\n", 1, '"agents": expected a list, found a number.'),
        ("agents:\n  - id: a\n    system_message: 5\n", 3, "expected a string (quote it if it is meant as text)"),
        ("agents: [{id: ../x}]\n", 1, "expected letters, digits"),
        ("agent:\n  backend:\n    max_tokens: lots\n", 3, '"agent.backend.max_tokens": expected a whole number'),
        ("limits:\n  file_bytes: 0\n", 2, "expected a number greater than 0"),
        ("limits: {call_seconds: .inf}\n", 1, "expected a finite number"),
        ("limits: {file_bytes: lots}\n", 1, "expected a whole number, found text"),
        ("toolyard:\n  code_execution: {enabled: maybe}\n", 2, "expected true or false, found text"),
        ("permissions:\n  mode: strct\n", 2, 'Did you mean "strict"?'),
        ("toolyard: {execution_mode: context}\n", 1, 'Did you mean "context_based"?'),
        ("orchestrator:\n  context_paths:\n    - permission: read\n", 3, 'lacks the key "path"'),
        ("available_mcp_servers: [{name: x, args: [y]}]\n", 1, "expected either `command`"),
        ("available_mcp_servers: [{name: x, command: 5}]\n", 1, "expected a string or a list of strings"),
        ("available_mcp_servers: [{name: x, command: a, url: b}]\n", 1, "expected either `command`"),
        ("toolyard: {in_context_tools: {fs: all}}\n", 1, 'a list of tool names, or "*"'),
        ("massgen: {}\ntoolyard: {}\n", 1, "two spellings of one key"),
        ("agents: []\nagent: {}\n", 2, "two spellings of one key"),
        ("ui: {}\nui: {}\n", 2, 'the key "ui" appears twice'),
        ("ui: {display_type: simple,\n  display_type: silent}\n", 2, "already set on line 1"),
        ("ui:\n  - a\n b: 1\n", 3, "is not valid YAML"),
        ("ui: !!python/object/apply:os.system [id]\n", 1, "is not supported"),
        ("ui: {display_type: !!binary aGk=}\n", 1, "is not supported"),
        ("? [a, b]\n: 1\n", 1, "a key must be plain text"),
        ("a: &a [*a]\n", 1, "an alias contains itself"),
        ("limits: {file_bytes: " + "9" * 6000 + "}\n", 1, "is not a number that can be read"),
        ("ui: \x01\n", None, "is not valid YAML"),
    ],
)
def test_a_wrong_value_names_its_line_and_what_was_expected(write, text, line, said):
    path = write(text)
    error = refused(path)
    assert error.where == (f"{path}:{line}" if line else path)
    assert said in str(error)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (
            "agents:\n  - id: a\n  - id: b\n  - system_message: x\n    id: a\n",
            5,
            '"agents[2].id": the id a is used twice.',
        ),
        ("agents:\n  - system_message: x\n  - system_message: y\n", 3, '"agents[1]": the id agent is used twice.'),
    ],
)
def test_an_id_that_is_used_twice_names_the_second_one(write, text, line, said):
    path = write(text)
    error = refused(path)
    assert str(error) == f"{path}:{line}: {said} Give every agent a unique `id`."


def test_keys_of_a_backend_that_was_forgotten_are_one_error(write):
    path = write("agents:\n  - id: a\n    type: gemini\n    model: x\n    cwd: w\n    permission_mode: plan\n")
    assert str(refused(path)) == (
        f'{path}:3: unknown keys "type", "model", "cwd", "permission_mode" in "agents[0]". '
        "They belong under `backend:`, indented one step more."
    )


def test_one_key_beside_its_backend_is_told_where_it_belongs_and_a_typo_what_it_was(write):
    path = write("agent:\n  backend: {type: gemini}\n  cwd: w\n  system_mesage: x\n")
    text = str(refused(path))
    assert f'{path}:3: unknown key "cwd" in "agent". It belongs under `backend:`' in text
    assert f'{path}:4: unknown key "system_mesage" in "agent". Did you mean "system_message"?' in text


def test_every_problem_of_a_file_is_told_at_once(write):
    path = write("ui:\n  a: 1\nlimits:\n  file_bytes: x\n")
    text = str(refused(path))
    assert f"{path}:2" in text
    assert f"{path}:4" in text


def test_an_error_never_shows_the_value(write):
    path = write("agent:\n  backend:\n    max_tokens: ${SECRET}\n")
    assert "hush-hush" not in str(refused(path, {"SECRET": "hush-hush"}))


def test_variables_expand_with_and_without_defaults(write):
    path = write(
        """
        agent:
          system_message: "${A} ${EMPTY:-filled} ${UNSET:-} ${UNSET:-b c} $${A} $A"
          backend: {max_tokens: "${N}"}
        """
    )
    agent = load_config(path, env={"A": "a", "EMPTY": "", "N": "7"}).agents[0]
    assert agent == Agent(system_message="a filled  b c ${A} $A", backend=Backend(max_tokens=7))


def test_an_expanded_value_is_not_expanded_again(write):
    path = write("agent: {system_message: '${A}'}")
    assert load_config(path, env={"A": "${B}"}).agents[0].system_message == "${B}"


@pytest.mark.parametrize(
    ("text", "said"),
    [("${NOPE}", "the variable NOPE is not set"), ("${1}", "write `$${`"), ("${A", "write `$${`"), ("${A-b}", "$${")],
)
def test_a_variable_that_cannot_be_expanded_is_an_error_with_its_line(write, text, said):
    path = write(f"ui:\n  logging_enabled: true\nagent:\n  system_message: '{text}'\n")
    error = refused(path, {"A": "a"})
    assert error.where == f"{path}:4"
    assert said.lower() in str(error).lower()


def test_merge_keys_work_and_own_keys_win(write):
    path = write(
        """
        agents:
          - &base {id: a, backend: {cwd: work}, system_message: x}
          - {<<: *base, id: b}
        """
    )
    agents = load_config(path).agents
    assert agents[1] == Agent(id="b", backend=Backend(cwd="work"), system_message="x")


def test_an_alias_bomb_is_refused_at_once(write):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    started = time.process_time()
    error = refused(write("\n".join(lines)))
    assert "contains too many values for a configuration" in str(error)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("depth", [100, 3_000])
def test_bottomless_nesting_is_refused(write, depth):
    assert "is nested too deeply" in str(refused(write("ui: " + "[" * depth + "]" * depth)))


def test_a_file_that_is_too_large_is_refused(write):
    assert "is larger than" in str(refused(write("#" * (MAX_CONFIG_BYTES + 1))))


def test_bytes_that_are_no_text_name_their_line(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_bytes(b"ui: {}\n# \xff\n")
    assert refused(str(path)).where == f"{path}:2"


def test_what_is_no_file_is_refused_without_hanging(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    assert "is a named pipe, not a regular file" in str(refused(str(tmp_path / "fifo")))
    assert "is a folder, not a regular file" in str(refused(str(tmp_path)))


def test_the_file_of_a_folder_is_found_by_its_name(tmp_path):
    assert find_config(str(tmp_path)) is None
    (tmp_path / "toolyard.yaml").write_text("")
    assert find_config(str(tmp_path)) == str(tmp_path / "toolyard.yaml")


@given(st.text(max_size=200))
def test_any_text_is_either_a_config_or_a_config_error(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("any") / "c.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        assert isinstance(load_config(str(path), env={}), Config)
    except ConfigError as error:
        assert str(path) in str(error)


def test_a_servers_name_that_hides_where_it_ends_is_an_error_with_its_line(write):
    path = write("""
        toolyard:
          available_mcp_servers:
            - {name: fine, command: x}
            - {name: a__b, command: x}
    """)
    with pytest.raises(ConfigError, match="must not contain `__`") as caught:
        load_config(path)
    assert caught.value.where == f"{path}:4"
    assert caught.value.hint == "Call it `a_b`."
