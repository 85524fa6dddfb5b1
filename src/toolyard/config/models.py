"""The configuration file as frozen models. An unknown key anywhere is an error.

The file format is public: keys are added, never renamed. Values stay as written in the file (paths stay relative,
servers stay a list of entries and names); the layers that use them interpret them. Values that may contain a secret
(`env`, `headers`, `api_key`) are excluded from `repr`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, cast

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator
from pydantic_core import PydanticCustomError

from toolyard.config.assistant import Assistant
from toolyard.config.backends import BACKENDS, BackendKind, backend_kind, suggest_backend
from toolyard.config.custom_tools import Browser, CustomToolNames, Vision
from toolyard.config.execution import CodeExecution, Docker, RunLimitsSection
from toolyard.config.filesystem import Filesystem
from toolyard.config.section import REFUSED, UNKNOWN_KEY, Seconds, Section, Size, expected_error
from toolyard.config.server_entry import ServerEntry, Servers
from toolyard.config.snapshots import Snapshots
from toolyard.config.webhook import WebhookSection
from toolyard.core.agent_folder_names import DEFAULT_AGENT, DEFAULT_ROOT
from toolyard.core.errors import ErrorForm
from toolyard.core.limits import DEFAULT_LIMITS, Limits
from toolyard.core.permission_modes import Access, PermissionMode

__all__ = [
    "UNKNOWN_KEY",
    "CodeExecution",
    "Config",
    "Docker",
    "RunLimitsSection",
    "Section",
    "ServerEntry",
    "Servers",
]


def _check_tool_choice(value: Any) -> Any:
    if value == "*":
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in cast("list[object]", value)):
        return tuple(cast("list[str]", value))
    raise expected_error('a list of tool names, or "*"')


Location = tuple[str | int, ...]
"""The keys and indices that lead from the top of the file to a value."""
ToolChoice = Annotated[Literal["*"] | tuple[str, ...], BeforeValidator(_check_tool_choice)]


class SearchTools(Section):
    """How tool search works."""

    enable_ripgrep: bool = True
    enable_ast_grep: bool = True
    enable_semtools: bool = False
    """Semantic search in addition to keywords; needs the extra `semantic`."""


class ToolLimit(Section):
    """Usage limits of the tools that a pattern matches, counted since the start of Toolyard."""

    per_minute: Size | None = None
    most_calls: Size | None = None
    most_cost: Annotated[float, Field(gt=0)] | None = None
    cost: Annotated[float, Field(ge=0)] = 0
    """The cost of one call, in the same unit as `most_cost`."""
    each_agent: bool = False
    """Whether the limit applies to each agent separately; otherwise all agents share it."""
    ask: bool = False
    """Whether each call needs the user's approval."""

    @model_validator(mode="after")
    def _check_costs(self) -> Self:
        if self.most_cost is not None and not self.cost:
            raise expected_error("a `cost` per call, in addition to `most_cost`")
        return self


class ToolyardSection(Section):
    """The workspace, code execution in it, and the available tools."""

    workspace: str = DEFAULT_ROOT
    """The workspace root, relative to the configuration file."""
    execution_mode: Literal["filesystem_first", "context_based"] = "context_based"
    """Whether agents get every tool directly, or the essential ones and the others as files to call from code."""
    code_execution: CodeExecution = CodeExecution()
    in_context_tools: Mapping[str, ToolChoice] = Field(default_factory=dict)
    """The tools that an agent gets directly with `filesystem_first`, by server or group: names, or "*"."""
    available_mcp_servers: Servers = ()
    """Servers for every agent: entries, or names from your own servers file."""
    server_files: tuple[str, ...] = ()
    """Files of other programs (`.mcp.json`, `~/.cursor/mcp.json` ...) whose servers are made available too."""
    max_running_servers: Size = 50
    """Maximum number of local servers running at once, for all agents of a run. Idle ones are stopped for others."""
    available_custom_tools: CustomToolNames = ()
    """`web.screenshot`, `package.module:function`, or the functions of a file."""
    browser: Browser = Browser()
    vision: Vision = Vision()
    tool_limits: Mapping[str, ToolLimit] = Field(default_factory=dict)
    """Limits by glob on tools, as in `allowed_tools`."""
    search_tools: SearchTools = SearchTools()
    skill_folders: tuple[str, ...] = ()
    """Folders with skills of other programs (`.claude/skills`, `~/.agents/skills` ...), used read-only."""
    webhook: WebhookSection | None = None
    """A URL that is notified of file operations."""


_SHOWN_CHARS = 60


def _check_backend(name: str) -> str:
    kind = backend_kind(name)
    if kind is None:
        shown = name if len(name) <= _SHOWN_CHARS else f"{name[: _SHOWN_CHARS - 1]}…"
        context = {"shown": shown, "hint": suggest_backend(name)}
        raise PydanticCustomError(REFUSED, '"{shown}" is not a known backend.', context)
    return kind.name


def _restore_off(value: Any) -> Any:
    """Converts False back to `off`: YAML reads `off` as a boolean."""
    return "off" if value is False else value


BackendType = Annotated[str, AfterValidator(_check_backend)]
Thinking = Annotated[Literal["off", "minimal", "low", "medium", "high"], BeforeValidator(_restore_off)]


class Backend(Section):
    """The model API or the CLI driver behind an agent, and the folder it works in."""

    type: BackendType | None = None
    """A model API (`gemini`, `openai`, `claude`, `ollama` ...) or an agent CLI (`claude_code`, `codex` ...)."""
    model: str | None = None
    """The model's name, as its provider spells it."""
    base_url: str | None = None
    """The URL of the API, if not the default."""
    api_key: SecretStr | None = None
    """Better left to the provider's variable (`GEMINI_API_KEY` ...), or written as `${VAR}`."""
    temperature: float | None = None
    max_tokens: Size | None = None
    """Maximum length of the answer of one turn."""
    context_window: Size | None = None
    """The model's context size in tokens; earlier parts of a conversation are summarised before it is exceeded."""
    thinking: Thinking | None = None
    """How much the model thinks before it answers; defaults to the model's own setting."""
    timeout: Seconds | None = None
    """Time limit of one model turn, in seconds."""
    cwd: str | None = None
    """The agent's working folder; if set, the agent has the file tools."""
    fresh: bool = False
    """Start with an empty `cwd`; a snapshot of its content is taken first."""
    permission_mode: PermissionMode | None = None
    """What the agent may do without approval."""
    mcp_servers: Servers = ()
    """The only servers of this agent: entries, or names of servers described elsewhere."""
    allowed_tools: tuple[str, ...] = ()
    """Globs on tools (`github.*`); empty allows every tool."""
    exclude_tools: tuple[str, ...] = ()
    """Globs on tools that this agent may not call."""

    @property
    def kind(self) -> BackendKind | None:
        return None if self.type is None else BACKENDS[self.type]


class Memory(Section):
    """The other agents whose memories an agent may read and write."""

    allow_read_from: tuple[str, ...] = ()
    allow_write_to: tuple[str, ...] = ()


class Agent(Section):
    """An agent: its id, its model and its system message."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)] = DEFAULT_AGENT
    backend: Backend = Backend()
    system_message: str | None = None
    """The system message of the agent."""
    memory: Memory = Memory()


class ContextPath(Section):
    """A file or folder outside the workspace that agents may read, or also write."""

    path: Annotated[str, Field(min_length=1)]
    permission: Access = Access.READ
    protected_paths: tuple[str, ...] = ()


class TeamLimits(Section):
    """Limits that end a run, whether or not the agents agree."""

    rounds: Size = 4
    """Maximum number of rounds in which agents see each other's answers."""
    seconds: Seconds = 3600.0
    tokens: Size | None = None
    """Maximum for all agents together."""
    cost: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Maximum for all agents together, in US dollars."""
    turns: Size = 100
    """Maximum number of model turns of one agent in one round."""


class Orchestrator(Section):
    """Settings shared by all agents of a team."""

    snapshot_storage: str | None = None
    """The folder for snapshots, if not the default."""
    agent_temporary_workspace: str | None = None
    """The folder in which agents see each other's shared files, if not the default."""
    context_paths: tuple[ContextPath, ...] = ()
    limits: TeamLimits = TeamLimits()


class Tracing(Section):
    """Where spans of runs, model calls and tool calls are sent (OTLP over HTTP). Off unless an endpoint is set."""

    endpoint: str | None = None
    """An OTLP address, such as `http://localhost:4318`."""
    headers: Mapping[str, str] = Field(default_factory=dict, repr=False)
    service_name: Annotated[str, Field(min_length=1)] = "toolyard"


class Ui(Section):
    """How a run is displayed."""

    display_type: Literal["rich_terminal", "textual_terminal", "simple", "silent"] = "rich_terminal"
    logging_enabled: bool = True


class Permissions(Section):
    """Rules for every agent."""

    mode: PermissionMode | None = None
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    presets: tuple[str, ...] = ()
    protected_paths: tuple[str, ...] = ()
    moderate_roots: tuple[str, ...] | None = None
    """Roots that `moderate` opens in addition to the workspace; default: the user's Documents and the temp folder."""


class LimitsSection(Section):
    """Limits of one tool call: file and output sizes, and time."""

    # The fields are those of `core.limits.Limits`; a test keeps the two in step.
    file_bytes: Size = DEFAULT_LIMITS.file_bytes
    output_chars: Size = DEFAULT_LIMITS.output_chars
    command_chars: Size = DEFAULT_LIMITS.command_chars
    read_lines: Size = DEFAULT_LIMITS.read_lines
    line_chars: Size = DEFAULT_LIMITS.line_chars
    list_entries: Size = DEFAULT_LIMITS.list_entries
    call_seconds: Seconds = DEFAULT_LIMITS.call_seconds
    path_bytes: Size = DEFAULT_LIMITS.path_bytes
    name_bytes: Size = DEFAULT_LIMITS.name_bytes
    pattern_chars: Size = DEFAULT_LIMITS.pattern_chars
    lock_seconds: Seconds = DEFAULT_LIMITS.lock_seconds
    overwrite_unread: bool = DEFAULT_LIMITS.overwrite_unread

    def to_limits(self) -> Limits:
        return Limits(**self.model_dump())

    def exceeds_defaults(self) -> bool:
        return any(getattr(self, name) > getattr(DEFAULT_LIMITS, name) for name in type(self).model_fields)


def _check_unique_ids(agents: tuple[Agent, ...]) -> tuple[Agent, ...]:
    seen: set[str] = set()
    for number, agent in enumerate(agents):
        if agent.id in seen:
            hint = "Give every agent a unique `id`."
            context = {"id": agent.id, "hint": hint, "at": ("agents", number, "id")}
            raise PydanticCustomError(REFUSED, "the id {id} is used twice.", context)
        seen.add(agent.id)
    return agents


class Config(Section):
    """A configuration file, or the defaults if there is none."""

    internal = frozenset({"source", "templates"})
    other_spellings = frozenset({"massgen", "agent"})

    toolyard: ToolyardSection = ToolyardSection()
    agents: tuple[Agent, ...] = ()
    """The agents, each with a unique `id`."""
    orchestrator: Orchestrator = Orchestrator()
    ui: Ui = Ui()
    available_mcp_servers: Servers = ()
    """Servers for every agent: entries, or names from your own servers file."""
    permissions: Permissions = Permissions()
    limits: LimitsSection = LimitsSection()
    snapshots: Snapshots = Snapshots()
    tracing: Tracing = Tracing()
    assistant: Assistant = Assistant()
    filesystem: Filesystem = Filesystem()
    errors: ErrorForm | None = None
    """How `toolyard mcp` and `toolyard assistant` report failed calls: `result` or `jsonrpc`."""
    source: str | None = None
    """The file this was read from (absolute), None for the defaults."""
    templates: Mapping[Location, str] = Field(default_factory=dict[Location, str], repr=False)
    """The original texts of values in which variables were expanded, by location."""

    @model_validator(mode="after")
    def _check_agent_ids(self) -> Self:
        _check_unique_ids(self.agents)
        return self

    @property
    def servers(self) -> tuple[ServerEntry | str, ...]:
        """Every server that the file makes available to all agents."""
        return self.toolyard.available_mcp_servers + self.available_mcp_servers

    @property
    def has_servers(self) -> bool:
        """Whether the file names any server, for all agents or for one."""
        named = self.servers or self.toolyard.server_files
        return bool(named or any(agent.backend.mcp_servers for agent in self.agents))

    def as_written(self, value: str, *location: str | int) -> str:
        """Returns the text of a value as written in the file, with its variables unexpanded, for display."""
        return self.templates.get(location, value)

    def base_folder(self, default: str) -> str:
        """Returns the folder that relative paths in the file start from: the file's own folder."""
        return os.path.dirname(self.source) if self.source else default
