"""The whole configuration file as types. Frozen, and an unknown key anywhere is an error.

The file's shape is public: keys are added, never renamed. Values keep the spelling of the file (paths stay
relative, servers stay a list of entries and names); what they mean is decided by the layers that use them.
Values that may carry a secret (`env`, `headers`, `api_key`) are kept out of `repr`.
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
"""The steps from the whole file to a value in it."""
ToolChoice = Annotated[Literal["*"] | tuple[str, ...], BeforeValidator(_check_tool_choice)]


class SearchTools(Section):
    """How tools are found."""

    enable_ripgrep: bool = True
    enable_ast_grep: bool = True
    enable_semtools: bool = False
    """Search by meaning beside keywords; takes the extra `semantic`."""


class ToolLimit(Section):
    """How much of the tools that a pattern names may be used, from the start of Toolyard on."""

    per_minute: Size | None = None
    most_calls: Size | None = None
    most_cost: Annotated[float, Field(gt=0)] | None = None
    cost: Annotated[float, Field(ge=0)] = 0
    """What one call costs, in any unit that `most_cost` has too."""
    each_agent: bool = False
    """Whether every agent has this much for itself; otherwise all share it."""
    ask: bool = False
    """Whether somebody has to say yes to each call."""

    @model_validator(mode="after")
    def _check_costs(self) -> Self:
        if self.most_cost is not None and not self.cost:
            raise expected_error("a `cost` a call, beside `most_cost`")
        return self


class ToolyardSection(Section):
    """The workspace, where code runs in it, and which tools there are."""

    workspace: str = DEFAULT_ROOT
    """The workspace root, beside the configuration file."""
    execution_mode: Literal["filesystem_first", "context_based"] = "context_based"
    """Whether agents are given every tool, or the essential ones and the others as files to call from code."""
    code_execution: CodeExecution = CodeExecution()
    in_context_tools: Mapping[str, ToolChoice] = Field(default_factory=dict)
    """Which tools an agent is given directly with `filesystem_first`, by server or group: names, or "*"."""
    available_mcp_servers: Servers = ()
    """Servers for every agent: entries, or names from your own servers file."""
    server_files: tuple[str, ...] = ()
    """Files of other programs (`.mcp.json`, `~/.cursor/mcp.json` ...) whose servers are available too."""
    max_running_servers: Size = 50
    """Local servers that run at once, for all agents of a run. Idle ones are ended where more are needed."""
    available_custom_tools: CustomToolNames = ()
    """`web.screenshot`, `package.module:function`, or the functions of a file."""
    browser: Browser = Browser()
    vision: Vision = Vision()
    tool_limits: Mapping[str, ToolLimit] = Field(default_factory=dict)
    """By glob on tools, as in `allowed_tools`."""
    search_tools: SearchTools = SearchTools()
    skill_folders: tuple[str, ...] = ()
    """Folders with skills of other programs (`.claude/skills`, `~/.agents/skills` ...), used read-only."""
    webhook: WebhookSection | None = None
    """Where a program outside hears of file operations."""


_SHOWN_CHARS = 60


def _check_backend(name: str) -> str:
    kind = backend_kind(name)
    if kind is None:
        shown = name if len(name) <= _SHOWN_CHARS else f"{name[: _SHOWN_CHARS - 1]}…"
        context = {"shown": shown, "hint": suggest_backend(name)}
        raise PydanticCustomError(REFUSED, '"{shown}" is no backend that is known here.', context)
    return kind.name


def _restore_off(value: Any) -> Any:
    """YAML reads `off` as false."""
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
    """Where the API listens, when not at its usual address."""
    api_key: SecretStr | None = None
    """Better left to the provider's variable (`GEMINI_API_KEY` ...), or written as `${VAR}`."""
    temperature: float | None = None
    max_tokens: Size | None = None
    """The longest answer of one turn."""
    context_window: Size | None = None
    """How many tokens the model can see; earlier parts of a conversation are summarised before that."""
    thinking: Thinking | None = None
    """How much it thinks before it answers; left out, as the model does by itself."""
    timeout: Seconds | None = None
    """How long one turn of the model may take, in seconds."""
    cwd: str | None = None
    """The folder the agent works in; with it, the agent has the file tools."""
    fresh: bool = False
    """Start from an empty `cwd`; what is in it is kept as a snapshot first."""
    permission_mode: PermissionMode | None = None
    """What the agent may do without being asked."""
    mcp_servers: Servers = ()
    """Servers of this agent, beside which it has no others: entries, or names of those described elsewhere."""
    allowed_tools: tuple[str, ...] = ()
    """Globs on tools (`github.*`); nothing means every tool."""
    exclude_tools: tuple[str, ...] = ()
    """Globs on tools that this agent may not call."""

    @property
    def kind(self) -> BackendKind | None:
        return None if self.type is None else BACKENDS[self.type]


class Memory(Section):
    """Whose memories an agent may read and write beside its own."""

    allow_read_from: tuple[str, ...] = ()
    allow_write_to: tuple[str, ...] = ()


class Agent(Section):
    """Who works, with which model, and what it is told."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)] = DEFAULT_AGENT
    backend: Backend = Backend()
    system_message: str | None = None
    """What the agent is told before anything else."""
    memory: Memory = Memory()


class ContextPath(Section):
    """A file or folder outside the workspace that agents may read, or also write."""

    path: Annotated[str, Field(min_length=1)]
    permission: Access = Access.READ
    protected_paths: tuple[str, ...] = ()


class TeamLimits(Section):
    """When a run of agents ends, whether or not they agree."""

    rounds: Size = 4
    """How often agents see each other's answers."""
    seconds: Seconds = 3600.0
    tokens: Size | None = None
    """Of all agents together."""
    cost: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Of all agents together, in US dollars."""
    turns: Size = 100
    """How often one agent may ask its model in one round."""


class Orchestrator(Section):
    """What belongs to all agents of a team."""

    snapshot_storage: str | None = None
    """The folder for snapshots, when not the usual one."""
    agent_temporary_workspace: str | None = None
    """The folder in which agents see each other's shared files, when not the usual one."""
    context_paths: tuple[ContextPath, ...] = ()
    limits: TeamLimits = TeamLimits()


class Tracing(Section):
    """Where spans of runs, model calls and tool calls are sent, over OTLP and HTTP. Nowhere unless it is said."""

    endpoint: str | None = None
    """An OTLP address, such as `http://localhost:4318`."""
    headers: Mapping[str, str] = Field(default_factory=dict, repr=False)
    service_name: Annotated[str, Field(min_length=1)] = "toolyard"


class Ui(Section):
    """How a run shows itself."""

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
    """What `moderate` opens beside the workspace; the user's Documents and the temp folder when left out."""


class LimitsSection(Section):
    """How much of files, answers and time one call of a tool may take."""

    # The fields are those of `core.limits.Limits`; a test holds the two together.
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
            hint = "Give every agent an `id` of its own."
            context = {"id": agent.id, "hint": hint, "at": ("agents", number, "id")}
            raise PydanticCustomError(REFUSED, "the id {id} is used twice.", context)
        seen.add(agent.id)
    return agents


class Config(Section):
    """A configuration file, or the defaults where there is none."""

    internal = frozenset({"source", "templates"})
    other_spellings = frozenset({"massgen", "agent"})

    toolyard: ToolyardSection = ToolyardSection()
    agents: tuple[Agent, ...] = ()
    """The agents, each with an `id` of its own."""
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
    """How `toolyard mcp` and `toolyard assistant` answer calls that fail: `result` or `jsonrpc`."""
    source: str | None = None
    """The file this was read from (absolute), None for the defaults."""
    templates: Mapping[Location, str] = Field(default_factory=dict[Location, str], repr=False)
    """The texts that variables were put into, as the file has them."""

    @model_validator(mode="after")
    def _check_agent_ids(self) -> Self:
        _check_unique_ids(self.agents)
        return self

    @property
    def servers(self) -> tuple[ServerEntry | str, ...]:
        """Every server the file makes available, wherever it was declared."""
        return self.toolyard.available_mcp_servers + self.available_mcp_servers

    @property
    def has_servers(self) -> bool:
        """Whether any is named, for everybody or for one agent."""
        named = self.servers or self.toolyard.server_files
        return bool(named or any(agent.backend.mcp_servers for agent in self.agents))

    def as_written(self, value: str, *location: str | int) -> str:
        """How a value that stands there is shown: with its variables, not with what they stand for."""
        return self.templates.get(location, value)

    def base_folder(self, default: str) -> str:
        """Where relative paths of the file start: beside it."""
        return os.path.dirname(self.source) if self.source else default
