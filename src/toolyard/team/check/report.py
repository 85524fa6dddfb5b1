"""What would happen in a run, as data: for the terminal and, with `as_json`, for programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that stops the run, or that its user should know."""

    text: str
    hint: str = ""
    agent: str = ""
    """Whom it is about; empty: the whole run."""


class ServerState(StrEnum):
    KNOWN = "known"
    UNKNOWN = "never asked"  # it is asked when the run starts
    FAILED = "never answered"  # it was asked, and is asked again
    UNUSABLE = "cannot be had"


@dataclass(frozen=True, slots=True)
class ServerCheck:
    name: str
    state: ServerState
    tools: int = 0
    """How many of its tools the agent may call, as far as they are known."""
    note: str = ""
    """What went wrong with it, now or the last time."""


@dataclass(frozen=True, slots=True)
class AgentCheck:
    id: str
    backend: str = ""
    model: str = ""
    access: str = ""
    """With what it reaches its model: which variable, login or program."""
    workspace: str = ""
    """Empty for an agent without files."""
    folder: str = ""
    """What happens to that folder at the start."""
    mode: str = ""
    rights: str = ""
    """The mode in words."""
    walls: str = ""
    """Where its commands and code run."""
    servers: tuple[ServerCheck, ...] = ()
    tools: tuple[str, ...] = ()
    """The names of what is in its context."""
    tool_tokens: int = 0
    prompt_tokens: int = 0
    """Of the system prompt: the user's part and ours."""
    file_tools: int = 0
    """Tools that are files, and cost nothing until they are read."""
    file_tokens: int = 0
    """What those would cost in the context."""

    @property
    def tokens(self) -> int:
        """What its model sees before the task."""
        return self.tool_tokens + self.prompt_tokens


@dataclass(frozen=True, slots=True)
class CheckReport:
    config: str
    execution_mode: str
    root: str
    """The folder that its agents share."""
    agents: tuple[AgentCheck, ...] = ()
    limits: Mapping[str, float] = field(default_factory=dict[str, float])
    """What ends a run, those that are set."""
    problems: tuple[Finding, ...] = ()
    """What would stop it."""
    without: tuple[str, ...] = ()
    """The agents that it starts without, because they cannot start."""
    without_commands: tuple[str, ...] = ()
    """The agents whose commands and code will be refused, because no sandbox can be built for them."""
    notices: tuple[Finding, ...] = ()

    @property
    def is_ready(self) -> bool:
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        agents = [{**dataclasses.asdict(agent), "tokens": agent.tokens} for agent in self.agents]
        return {"ready": self.is_ready, **dataclasses.asdict(self), "agents": agents}
