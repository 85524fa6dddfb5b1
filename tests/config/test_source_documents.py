"""Configurations as people have them already: each loads unchanged and means what it says."""

from __future__ import annotations

import pytest

from toolyard.codemode.custom.registry import load_custom_tools
from toolyard.config.authorization import Authorization
from toolyard.config.loader import load_config
from toolyard.config.models import (
    Agent,
    Backend,
    Config,
    ContextPath,
    Memory,
    Orchestrator,
    SearchTools,
    ToolyardSection,
    Ui,
)
from toolyard.config.server_entry import ServerEntry
from toolyard.config.server_registry import resolve_servers
from toolyard.config.settings import Settings
from toolyard.core.errors import ConfigError
from toolyard.core.permission_modes import Access, PermissionMode

WEATHER = ServerEntry(name="weather", type="stdio", command="npx", args=("-y", "@fak111/weather-mcp"))


@pytest.fixture
def load(tmp_path):
    def _load(text: str, **env: str) -> Config:
        path = tmp_path / "toolyard.yaml"
        path.write_text(text)
        return load_config(str(path), env=env).model_copy(update={"source": None})

    return _load


@pytest.fixture
def settings(tmp_path):
    """A machine whose user has described two servers."""
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "servers.yaml").write_text("github: {command: github-mcp}\nslack: {url: https://slack.example/mcp}\n")
    return Settings(str(tmp_path), f"{tmp_path}/state", f"{tmp_path}/tmp", f"{tmp_path}/docs", str(folder))


# One agent, and what it is given


def test_a_single_agent_needs_no_id(load):
    config = load("""
agent:
  backend:
    type: "claude_code"
    cwd: "claude_code_workspace"
    permission_mode: "bypassPermissions"
    # MCP servers are optional - filesystem tools are built-in
""")
    backend = Backend(type="claude_code", cwd="claude_code_workspace", permission_mode=PermissionMode.BYPASS)
    assert config == Config(agents=(Agent(id="agent", backend=backend),))
    assert config.agents[0].backend.kind.driver == "claude"


def test_a_single_agent_may_have_an_id(load):
    config = load("""
# Claude Code version (EXISTING) - identical structure
agent:
  id: "claude_code_agent"
  backend:
    type: "claude_code"
    cwd: "shared_workspace"
    permission_mode: "bypassPermissions"
""")
    backend = Backend(type="claude_code", cwd="shared_workspace", permission_mode=PermissionMode.BYPASS)
    assert config.agents == (Agent(id="claude_code_agent", backend=backend),)


def test_the_same_keys_serve_an_agent_behind_a_model_api(load):
    config = load("""
# Gemini version (NEW)
agents:
  - id: "gemini_agent"
    backend:
      type: "gemini"
      cwd: "shared_workspace"
      permission_mode: "bypassPermissions"
""")
    backend = Backend(type="gemini", cwd="shared_workspace", permission_mode=PermissionMode.BYPASS)
    assert config.agents == (Agent(id="gemini_agent", backend=backend),)
    assert backend.kind.api == "gemini"


def test_both_spellings_of_the_agents_are_not_used_at_once(load, tmp_path):
    with pytest.raises(ConfigError, match='"agent" and "agents" are two spellings of one key') as caught:
        load("agents:\n  - id: a\nagent:\n  id: b\n")
    assert caught.value.where == f"{tmp_path}/toolyard.yaml:3"


@pytest.mark.parametrize("model", ["", '      model: "gemini-2.5-flash"\n'])
def test_servers_of_an_agent_as_a_list(load, model):
    config = load(f"""
# Existing configurations continue to work unchanged
agents:
  - id: "gemini2.5flash_mcp_weather"
    backend:
      type: "gemini"
{model}      # No cwd/permission_mode = no filesystem access (current behavior)
      mcp_servers:
        - name: "weather"
          type: "stdio"
          command: "npx"
          args: ["-y", "@fak111/weather-mcp"]
""")
    named = "gemini-2.5-flash" if model else None
    backend = Backend(type="gemini", model=named, mcp_servers=(WEATHER,))
    assert config == Config(agents=(Agent(id="gemini2.5flash_mcp_weather", backend=backend),))


MAPPED = """
# IDENTICAL to Claude Code configuration format
agents:
  - id: "gemini_filesystem_agent"
    backend:
      type: "gemini"
      model: "gemini-2.5-flash"

      # IDENTICAL to Claude Code: These two lines enable filesystem access
      cwd: "gemini_workspace_shared"
      permission_mode: "bypassPermissions"  # or "acceptEdits", "strict"

      # OPTIONAL: MCP servers work exactly like in Claude Code
      mcp_servers:
        weather:
          type: "stdio"
          command: "npx"
          args: ["-y", "@fak111/weather-mcp"]

    system_message: |
      You are an AI assistant with filesystem access.
      You have the same tools as Claude Code: Read, Write, Edit, MultiEdit, Bash, Grep, Glob, LS.

ui:
  display_type: "rich_terminal"
  logging_enabled: true
"""


def test_servers_of_an_agent_as_a_map_beside_its_message_and_the_terminal(load):
    config = load(MAPPED)
    message = (
        "You are an AI assistant with filesystem access.\n"
        "You have the same tools as Claude Code: Read, Write, Edit, MultiEdit, Bash, Grep, Glob, LS.\n"
    )
    backend = Backend(
        type="gemini",
        model="gemini-2.5-flash",
        cwd="gemini_workspace_shared",
        permission_mode=PermissionMode.BYPASS,
        mcp_servers=(WEATHER,),
    )
    agent = Agent(id="gemini_filesystem_agent", backend=backend, system_message=message)
    assert config == Config(agents=(agent,), ui=Ui(display_type="rich_terminal", logging_enabled=True))


@pytest.mark.parametrize("mode", ["bypassPermissions", "acceptEdits", "strict", "plan", "default", "moderate"])
def test_every_permission_mode_may_stand_in_a_backend(load, mode):
    config = load(MAPPED.replace('"bypassPermissions"', f'"{mode}"', 1))
    assert config.agents[0].backend.permission_mode == PermissionMode(mode)


FOLDER = """
agents:
  - id: "gemini_weather"
    backend:
      type: "gemini"
      cwd: "gemini_workspace"  # NEW: enables filesystem
      mcp_servers:
        - name: "weather"
          # ... existing config
"""
FILESYSTEM = """
agents:
  - id: "gemini_weather"
    backend:
      type: "gemini"
      cwd: "gemini_workspace"
      mcp_servers:
        - name: "filesystem"  # NEW: filesystem tools
          type: "stdio"
          command: "python"
          args: ["-m", "filesystem_mcp_server"]
        - name: "weather"
          # ... existing config
"""


def test_an_entry_that_is_only_a_name_means_the_server_of_that_name(load, settings, tmp_path):
    first = load(FOLDER.replace('      cwd: "gemini_workspace"  # NEW: enables filesystem\n', ""))
    assert first.agents[0].backend == Backend(type="gemini", mcp_servers=("weather",))
    second = load(FOLDER)
    assert second.agents[0].backend == Backend(type="gemini", cwd="gemini_workspace", mcp_servers=("weather",))
    (tmp_path / "config/servers.yaml").write_text("weather: {command: npx, args: [-y, '@fak111/weather-mcp']}\n")
    assert [entry.command_line for entry in resolve_servers(second, settings).entries] == [
        ("npx", "-y", "@fak111/weather-mcp")
    ]


def test_a_file_server_of_ones_own_stands_beside_the_others(load):
    filesystem = ServerEntry(name="filesystem", type="stdio", command="python", args=("-m", "filesystem_mcp_server"))
    assert load(FILESYSTEM).agents[0].backend.mcp_servers == (filesystem, "weather")


def test_an_agents_servers_as_bare_names(load, settings):
    config = load("""
massgen:
  execution_mode: "context_based"

agents:
  - id: "agent"
    backend:
      type: "openai"
      model: "gpt-4o"
      mcp_servers:
        # Can only attach 5-10 before context overflows
        - filesystem
        - github
        - google-drive
        - slack
        - postgres
        # Adding more would exceed context limits!
""")
    assert config.toolyard.execution_mode == "context_based"
    names = ("filesystem", "github", "google-drive", "slack", "postgres")
    assert config.agents == (Agent(backend=Backend(type="openai", model="gpt-4o", mcp_servers=names)),)
    resolved = resolve_servers(config, settings)
    assert [entry.name for entry in resolved.entries] == ["github", "slack"]
    assert [problem.server for problem in resolved.errors] == ["filesystem", "google-drive", "postgres"]
    assert all(problem.hint for problem in resolved.errors)
    assert Authorization.for_agent(config, "agent", resolved).may_use("github")


def test_a_backend_takes_every_key(load):
    config = load(
        """
agents:
  - id: all_keys
    backend:
      type: openai
      model: ${MODEL:-gpt-4o}
      base_url: http://${HOST:-localhost}:8080/v1
      api_key: ${SECRET}
      temperature: 0.2
      max_tokens: 4096
      context_window: 128000
      thinking: off
      timeout: 90
      cwd: work
      fresh: true
      permission_mode: acceptEdits
      mcp_servers: {github: , weather: {command: npx, env: {KEY: "${LATER}"}}}
      allowed_tools: ["github.*", "weather.*"]
      exclude_tools: [github.delete_repo]
""",
        SECRET="hush",
        HOST="10.0.0.1",
    )
    backend = config.agents[0].backend
    assert backend.model_dump(exclude={"mcp_servers", "api_key"}) == {
        "type": "openai",
        "model": "gpt-4o",
        "base_url": "http://10.0.0.1:8080/v1",
        "temperature": 0.2,
        "max_tokens": 4096,
        "context_window": 128000,
        "thinking": "off",
        "timeout": 90.0,
        "cwd": "work",
        "fresh": True,
        "permission_mode": PermissionMode.ACCEPT_EDITS,
        "allowed_tools": ("github.*", "weather.*"),
        "exclude_tools": ("github.delete_repo",),
    }
    assert backend.api_key.get_secret_value() == "hush"
    assert "hush" not in repr(config)
    # Servers keep their variables until they are started: one that is missing costs that server alone.
    assert backend.mcp_servers == ("github", ServerEntry(name="weather", command="npx", env={"KEY": "${LATER}"}))
    rights = Authorization.for_agent(config, None)
    assert rights.may_call("github", "create_issue")
    assert not rights.may_call("github", "delete_repo")


def test_a_variable_without_a_value_or_a_default_is_told_with_its_line(load, tmp_path):
    with pytest.raises(ConfigError, match="the variable MODEL is not set") as caught:
        load("agents:\n  - id: a\n    backend:\n      model: ${MODEL}\n")
    assert caught.value.where == f"{tmp_path}/toolyard.yaml:4"


# Several agents


def test_agents_say_whose_memory_they_may_read(load):
    config = load("""
agents:
  - id: "agent_a"
    memory:
      allow_read_from: ["agent_b", "agent_c"]  # Can read these agents' memories
      allow_write_to: []                       # Cannot write to others' memories

  - id: "agent_b"
    memory:
      allow_read_from: ["agent_a"]
      allow_write_to: []
""")
    assert config == Config(
        agents=(
            Agent(id="agent_a", memory=Memory(allow_read_from=("agent_b", "agent_c"))),
            Agent(id="agent_b", memory=Memory(allow_read_from=("agent_a",))),
        )
    )


# Tools as files


FIRST = """
agents:
  - id: "agent_a"
    backend:
      type: "openai"
      model: "gpt-4o"

# Global configuration
massgen:
  execution_mode: "filesystem_first"  # New option (default: "context_based")

  # Tools that remain in-context for immediate access
  in_context_tools:
    # Core filesystem operations (required for basic functionality)
    filesystem:
      - read_file
      - write_file
      - list_directory
      - create_directory
      - move_file
      - get_file_info

    # Code execution (if available)
    code_execution:
      - execute_python
      - execute_bash

    # Optional: Can be customized per config
    # essential_custom_tools:
    #   - search_memory  # If agent needs frequent memory access

  # All other MCPs exposed as files (not in context)
  available_mcp_servers:
    # Productivity & Communication
    - google-drive
    - gmail
    - google-calendar
    - slack
    - discord
    - notion
    - confluence

    # Development & Code
    - github
    - gitlab
    - linear
    - jira

    # Databases
    - postgres
    - mysql
    - mongodb
    - redis
    - elasticsearch

    # Sales & CRM
    - salesforce
    - hubspot
    - stripe

    # Cloud & Infrastructure
    - aws
    - gcp
    - azure
    - docker
    - kubernetes

  # Custom tools exposed as files (not in context)
  available_custom_tools:
    - web.playwright_navigate
    - web.screenshot
    - multimodal.vision_understanding
    - multimodal.video_analysis

  # Enable CLI search tools in Docker
  search_tools:
    enable_ripgrep: true
    enable_ast_grep: true
    enable_semtools: false  # Optional, defer initially
"""
MANY = (
    *("google-drive", "gmail", "google-calendar", "slack", "discord", "notion", "confluence"),
    *("github", "gitlab", "linear", "jira", "postgres", "mysql", "mongodb", "redis", "elasticsearch"),
    *("salesforce", "hubspot", "stripe", "aws", "gcp", "azure", "docker", "kubernetes"),
)
SIX = ("read_file", "write_file", "list_directory", "create_directory", "move_file", "get_file_info")


def test_everything_there_is_attached_as_files(load):
    custom = ("web.playwright_navigate", "web.screenshot", "multimodal.vision_understanding")
    section = ToolyardSection(
        execution_mode="filesystem_first",
        in_context_tools={"filesystem": SIX, "code_execution": ("execute_python", "execute_bash")},
        available_mcp_servers=MANY,
        available_custom_tools=(*custom, "multimodal.video_analysis"),
        search_tools=SearchTools(enable_ripgrep=True, enable_ast_grep=True, enable_semtools=False),
    )
    agent = Agent(id="agent_a", backend=Backend(type="openai", model="gpt-4o"))
    assert load(FIRST) == Config(agents=(agent,), toolyard=section)
    assert load(FIRST.replace("\nmassgen:", "\ntoolyard:")) == load(FIRST)


def test_names_nobody_has_described_are_told_and_the_others_go_on(load, settings):
    resolved = resolve_servers(load(FIRST), settings)
    assert [entry.name for entry in resolved.entries] == ["slack", "github"]
    assert [problem.server for problem in resolved.errors] == [n for n in MANY if n not in {"slack", "github"}]
    assert all("servers.yaml" in problem.message and problem.hint for problem in resolved.errors)


def test_names_are_told_where_there_is_no_servers_file_at_all(load, settings, tmp_path):
    (tmp_path / "config/servers.yaml").unlink()
    resolved = resolve_servers(load(FIRST), settings)
    assert resolved.entries == ()
    assert len(resolved.errors) == len(MANY)
    assert "Describe it there (`google-drive: {command: ...}`)" in resolved.errors[0].hint


def test_a_custom_tool_that_does_not_exist_is_told_and_the_others_go_on(load, settings):
    tools = load_custom_tools(load(FIRST), settings)
    assert sorted(tool.name for tool in tools) == [
        "multimodal.vision_understanding",
        "web.playwright_navigate",
        "web.screenshot",
    ]
    (problem,) = tools.problems
    assert problem.name == "multimodal.video_analysis"
    assert "multimodal.vision_understanding" in problem.text


def test_code_runs_in_a_container_with_an_image_and_the_hosts_network(load):
    config = load("""
massgen:
  execution_mode: "filesystem_first"

  # Code execution is REQUIRED for filesystem_first mode
  code_execution:
    enabled: true
    mode: "docker"  # Strongly recommended for security
    docker:
      image: "massgen/filesystem-first:latest"  # Pre-configured with ripgrep, ast-grep
      network: "host"  # Allows access to MCP servers
""")
    execution = config.toolyard.code_execution
    assert (execution.enabled, execution.mode) == (True, "docker")
    assert (execution.docker.image, execution.docker.network) == ("massgen/filesystem-first:latest", "host")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (
            """
    # Minimal set (even more context reduction)
    filesystem: [read_file, write_file, list_directory]
    code_execution: [execute_python]
""",
            {"filesystem": ("read_file", "write_file", "list_directory"), "code_execution": ("execute_python",)},
        ),
        (
            """
    filesystem: "*"  # All filesystem tools
    code_execution: "*"
    web: [playwright_navigate]  # If web-focused agent
""",
            {"filesystem": "*", "code_execution": "*", "web": ("playwright_navigate",)},
        ),
    ],
)
def test_the_tools_in_context_are_chosen_by_list_or_star(load, written, meant):
    config = load(f'massgen:\n  execution_mode: "filesystem_first"\n\n  in_context_tools:{written}')
    assert config.toolyard == ToolyardSection(execution_mode="filesystem_first", in_context_tools=meant)


def test_the_usual_mode_has_all_tools_in_context(load):
    config = load("""
# Default mode (existing behavior)
massgen:
  execution_mode: "context_based"  # All tools in context
""")
    assert config == Config(toolyard=ToolyardSection(execution_mode="context_based"))
    assert Config().toolyard.execution_mode == "context_based"


UNIVERSAL = """
massgen:
  execution_mode: "filesystem_first"
  code_execution:
    enabled: true
    mode: "docker"

agents:
  - id: "universal_agent"
    backend:
      type: "openai"
      model: "gpt-4o"
      # NO mcp_servers here - all defined globally!

# Global: Attach EVERY MCP you might ever need
available_mcp_servers:
  # Productivity (12 servers)
  - google-drive
  - gmail
  - notion
  - slack

  # Development (15 servers)
  - github
  - gitlab

  # ... and MORE as needed!
"""


def test_servers_for_everybody_may_stand_at_the_top(load, settings):
    config = load(UNIVERSAL)
    assert config.servers == ("google-drive", "gmail", "notion", "slack", "github", "gitlab")
    assert config.toolyard.code_execution.mode == "docker"
    assert config.agents[0].backend.mcp_servers == ()
    resolved = resolve_servers(config, settings)
    assert [entry.name for entry in resolved.entries] == ["slack", "github"]
    rights = Authorization.for_agent(config, "universal_agent", resolved)
    assert rights.may_use("slack")
    assert rights.may_use("github")


def test_servers_may_stand_in_both_places_as_names_and_as_entries(load, settings):
    config = load("""
available_mcp_servers:
  weather: {command: npx}
massgen:
  available_mcp_servers:
    - github
    - {name: tickets, url: "https://tickets.example/mcp", headers: {Authorization: "Bearer ${TOKEN}"}}
""")
    resolved = resolve_servers(config, settings)
    assert sorted(entry.name for entry in resolved.entries) == ["github", "tickets", "weather"]
    assert resolved.errors == ()


# What belongs to all


def test_the_orchestrator_keeps_snapshots_and_lends_folders(load):
    config = load("""
orchestrator:
  snapshot_storage: "snapshots"
  agent_temporary_workspace: "temp_workspaces"
  context_paths:
    - path: "../common/data"
      permission: "read"
    - path: "../common/results"
      permission: "write"
      protected_paths: ["keep.md"]
""")
    assert config.orchestrator == Orchestrator(
        snapshot_storage="snapshots",
        agent_temporary_workspace="temp_workspaces",
        context_paths=(
            ContextPath(path="../common/data", permission=Access.READ),
            ContextPath(path="../common/results", permission=Access.WRITE, protected_paths=("keep.md",)),
        ),
    )


@pytest.mark.parametrize("display", ["rich_terminal", "textual_terminal", "simple", "silent"])
def test_every_display_may_be_named(load, display):
    config = load(f"ui:\n  display_type: {display}\n  logging_enabled: false\n")
    assert config.ui == Ui(display_type=display, logging_enabled=False)
