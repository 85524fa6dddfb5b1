"""The result of `toolyard run --check` as data, for the terminal and for programs (`as_json`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem that stops the run, or a notice for the user."""

    text: str
    hint: str = ""
    agent: str = ""
    """The agent concerned; empty for the whole run."""


class ServerState(StrEnum):
    KNOWN = "known"
    UNKNOWN = "never asked"  # the run asks it at the start
    FAILED = "never answered"  # it was asked, and the run asks it again
    UNUSABLE = "cannot be had"


@dataclass(frozen=True, slots=True)
class ServerCheck:
    """The state of one server, as one agent sees it."""

    name: str
    state: ServerState
    tools: int = 0
    """Number of its tools that the agent may call, as far as known."""
    note: str = ""
    """The last error of the server."""


@dataclass(frozen=True, slots=True)
class AgentCheck:
    """What the run would give one agent."""

    id: str
    backend: str = ""
    model: str = ""
    access: str = ""
    """How it reaches its model: the variable, login or program."""
    workspace: str = ""
    """Empty for an agent without files."""
    folder: str = ""
    """What happens to the folder at the start."""
    mode: str = ""
    rights: str = ""
    """What the mode allows, in a sentence."""
    walls: str = ""
    """Where its commands and code run."""
    servers: tuple[ServerCheck, ...] = ()
    tools: tuple[str, ...] = ()
    """Names of the tools in its context."""
    tool_tokens: int = 0
    prompt_tokens: int = 0
    """Tokens of the system prompt: the user's part and ours."""
    file_tools: int = 0
    """Number of tools that are files and cost no context until they are read."""
    file_tokens: int = 0
    """Tokens those tools would take in the context."""

    @property
    def tokens(self) -> int:
        """Tokens the model sees before the task."""
        return self.tool_tokens + self.prompt_tokens


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The whole report."""

    config: str
    execution_mode: str
    root: str
    """The folder that the agents share."""
    agents: tuple[AgentCheck, ...] = ()
    limits: Mapping[str, float] = field(default_factory=dict[str, float])
    """The limits that are set."""
    problems: tuple[Finding, ...] = ()
    """Findings that stop the run."""
    without: tuple[str, ...] = ()
    """Agents that cannot start, so the run starts without them."""
    without_commands: tuple[str, ...] = ()
    """Agents whose commands and code are refused because no sandbox is available for them."""
    notices: tuple[Finding, ...] = ()

    @property
    def is_ready(self) -> bool:
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        agents = [{**dataclasses.asdict(agent), "tokens": agent.tokens} for agent in self.agents]
        return {"ready": self.is_ready, **dataclasses.asdict(self), "agents": agents}
