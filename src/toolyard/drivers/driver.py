"""The interface of a driver: how to start an agent CLI with our server attached, and how to read its output.

A driver is stateless and has no side effects: it returns the files, arguments and variables of a run, and `run.py`
applies them. The token of a run is not part of them. Only the CLI's process has it, in the variable `TOKEN_VARIABLE`,
which the CLI's settings refer to.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolyard.core.limits import MIB
from toolyard.drivers.messages import Message, Tokens
from toolyard.models.pricing import ModelRef

TOKEN_VARIABLE = "TOOLYARD_RUN_TOKEN"  # noqa: S105 - the variable's name
SERVER = "toolyard"
"""Name of our server in the settings of every CLI. Without underscore: Gemini CLI splits names at it."""

MAX_TEXT_CHARS = 8 * MIB
"""Maximum characters of model text in the last message. The deltas are not limited."""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What a driver knows about a run."""

    prompt: str
    url: str
    """URL of our server for this run."""
    folder: str
    """Private folder of this run, removed with it: the CLI's settings, home and temporary files."""
    workdir: str
    """Working folder of the CLI, empty: settings and hooks in a workspace are not trusted."""
    model: str = ""
    """Empty for the CLI's default."""
    instructions: str = ""
    """Added to the CLI's system prompt if it supports that."""
    tools: tuple[str, ...] = ()
    """The tools that are served, under our names."""
    denied: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tools that the policy always refuses, and why: the CLI is configured to refuse them too."""
    approve_tool: str = ""
    """Our tool that a CLI asks for permission, if it supports that; empty for none."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The driver's `keys` and `passed_variables` that the user has set: they select the provider."""
    has_login: bool = False
    """The user has set no key, and the CLI's login was copied into the folder."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """How to start a run."""

    arguments: tuple[str, ...]
    """The arguments after the program's name."""
    variables: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Files to write before the start, by path below the run's folder."""
    stdin: str = ""
    """Standard input. Other users could see a prompt in the arguments, whose length is also limited."""


@dataclass(frozen=True, slots=True)
class Login:
    """A file in which a CLI stores the user's login; a run without a key gets a copy.

    Only the owner can read the copy. It is removed with the run's folder, and never copied back.
    """

    folder: str
    """Below the user's home."""
    name: str
    copy_path: str
    """Target of the copy, below the run's folder."""
    variable: str = ""
    """Variable that names another folder."""

    def path(self, home: str, variables: Mapping[str, str]) -> str:
        """Returns the path of the user's file."""
        own = variables.get(self.variable, "") if self.variable else ""
        return os.path.join(own or os.path.join(home, self.folder), self.name)


@dataclass(slots=True)
class OutputState:
    """State of a run, according to the CLI's output."""

    is_over: bool = False
    """The CLI reported the end of the conversation."""
    error: str = ""
    """The final error that the CLI reported."""
    open_calls: dict[str, str] = field(default_factory=dict[str, str])
    """Calls without a result: names by id."""
    lost_server: bool = False
    """The CLI reported that it could not reach our server."""
    unknown_tools: list[str] = field(default_factory=list[str])
    """Our tools that the model called but the CLI did not know."""
    refused_tools: list[str] = field(default_factory=list[str])
    """Our tools that the CLI refused to call without asking our server."""
    answered_calls: int = 0
    """Number of calls of our tools that were answered."""
    text: list[str] = field(default_factory=list[str])
    """Text of the model, up to `MAX_TEXT_CHARS`."""
    tokens: Tokens = field(default_factory=Tokens)
    model: str = ""
    """The model, if the CLI names it."""
    tokens_by_model: dict[str, Tokens] = field(default_factory=dict[str, Tokens])
    """Tokens by model, if the CLI counts them separately."""
    cost: float | None = None
    """Cost in USD as reported by the CLI."""
    _text_chars: int = 0

    def append_text(self, text: str) -> None:
        """Adds text up to the limit."""
        text = text[: MAX_TEXT_CHARS - self._text_chars]
        if text:
            self._text_chars += len(text)
            self.text.append(text)

    def discard_denied(self, denied: Container[str]) -> None:
        """Removes denied tools from the refusals: we configured the CLI to refuse them."""
        self.refused_tools = [tool for tool in self.refused_tools if tool not in denied]
        self.unknown_tools = [tool for tool in self.unknown_tools if tool not in denied]


class OutputReader(Protocol):
    """Reads the output of one run."""

    state: OutputState

    def read(self, record: Mapping[str, Any]) -> Iterator[Message]:
        """Yields the messages for one object that the CLI printed. Never raises."""
        ...


class Driver(Protocol):
    """One agent CLI."""

    name: str
    title: str
    program: str
    package: str
    """Name of the npm package."""
    minimum_version: str
    """The oldest version tested with these options and this output."""
    asks_first: bool
    """Whether it can ask one of our tools before it calls a tool."""
    works_without_key: bool
    """Whether it works without a key and without a login."""
    builtins: frozenset[str]
    """Names of the CLI's own tools: one of ours with such a name would be hidden."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Variables that hold a key; one is enough. The first is shown to users."""
        ...

    @property
    def key_alternatives(self) -> tuple[str, ...]:
        """Variables that make a key unnecessary: another address, or a cloud identity."""
        ...

    @property
    def passed_variables(self) -> tuple[str, ...]:
        """Other variables that it needs: addresses, projects, regions."""
        ...

    @property
    def logins(self) -> tuple[Login, ...]:
        """Logins, used if no key is set."""
        ...

    def launch_spec(self, run: RunSpec) -> LaunchSpec: ...

    def reader(self, run: str, tools: Iterable[str]) -> OutputReader:
        """Returns a reader for one run; `tools` are the served tools under our names."""
        ...

    def model_ref(self, model: str, variables: Mapping[str, str]) -> ModelRef:
        """Returns the provider and model for a price lookup; empty if no model was named."""
        ...

    def shown_name(self, tool: str) -> str:
        """Returns the name by which the model calls one of our tools."""
        ...

    def served_name(self, tool: str) -> str:
        """Returns the name under which this CLI gets one of our tools."""
        ...
