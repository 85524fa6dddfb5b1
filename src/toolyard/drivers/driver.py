"""What one agent CLI is to us: how it is started with our server attached, and how its output is read.

A driver holds no state and touches nothing: it says which files, words and variables make a run, and somebody else
(`run.py`) carries that out. The token of a run is never among them. It is in the variable `TOKEN_VARIABLE` of the
CLI's process alone, and each CLI's settings name that variable.
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
"""What our server is called in the settings of every CLI. No underscore: Gemini CLI parses names by it."""

MAX_TEXT_CHARS = 8 * MIB
"""Characters that are kept of what a model says, for the last message. All of it comes on the way."""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What a driver may know of a run."""

    prompt: str
    url: str
    """Of our server, for this run."""
    folder: str
    """Private to this run and removed with it: the CLI's settings, its home, its temporary files."""
    workdir: str
    """Where the CLI stands: an empty folder of the run's. Settings and hooks of a workspace are a stranger's."""
    model: str = ""
    """The CLI's own default where it is empty."""
    instructions: str = ""
    """Added to the CLI's system prompt, where it has a way."""
    tools: tuple[str, ...] = ()
    """The tools that are served, under our names."""
    denied: Mapping[str, str] = field(default_factory=dict[str, str])
    """Those that the policy refuses whatever they are called with, and why: the CLI is told to refuse them too."""
    approve_tool: str = ""
    """The tool of ours that a CLI with a mechanism for it asks for permission; none where it is empty."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """What the user has set of the driver's `keys` and `passed_variables`: it decides which provider is used."""
    has_login: bool = False
    """The user has set no key, and the login of the CLI was put into the folder instead."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """How a run is started."""

    arguments: tuple[str, ...]
    """What follows the program's name."""
    variables: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """What is written below the run's folder before it starts, by path."""
    stdin: str = ""
    """What it reads as its input. A prompt among the words would be shown to every user, and could not be long."""


@dataclass(frozen=True, slots=True)
class Login:
    """A file in which a CLI keeps the login of its user: a run without a key gets a copy of it, and of nothing else.

    The copy is readable by its owner alone, goes with the run's folder, and is never copied back.
    """

    folder: str
    """In the user's home."""
    name: str
    copy_path: str
    """Below the run's folder."""
    variable: str = ""
    """Names another folder than that, where it is set."""

    def path(self, home: str, variables: Mapping[str, str]) -> str:
        """Where the user has it."""
        own = variables.get(self.variable, "") if self.variable else ""
        return os.path.join(own or os.path.join(home, self.folder), self.name)


@dataclass(slots=True)
class OutputState:
    """What the output said so far that decides how the run ended."""

    is_over: bool = False
    """The CLI said that the conversation is at its end."""
    error: str = ""
    """What the CLI says went wrong for good."""
    open_calls: dict[str, str] = field(default_factory=dict[str, str])
    """Calls that have no result yet: id and name."""
    lost_server: bool = False
    """The CLI itself says that it could not reach our server."""
    unknown_tools: list[str] = field(default_factory=list[str])
    """Tools of ours that the model called and the CLI did not know."""
    refused_tools: list[str] = field(default_factory=list[str])
    """Tools of ours that the CLI itself refused to call: we were not even asked."""
    answered_calls: int = 0
    """Calls of our tools that came back with what we said."""
    text: list[str] = field(default_factory=list[str])
    """What the model said, up to `MAX_TEXT_CHARS`."""
    tokens: Tokens = field(default_factory=Tokens)
    model: str = ""
    """The model, where the CLI names it."""
    tokens_by_model: dict[str, Tokens] = field(default_factory=dict[str, Tokens])
    """Where the CLI counts them apart."""
    cost: float | None = None
    """What the CLI says."""
    _text_chars: int = 0

    def append_text(self, text: str) -> None:
        """Add to the text."""
        text = text[: MAX_TEXT_CHARS - self._text_chars]
        if text:
            self._text_chars += len(text)
            self.text.append(text)

    def discard_denied(self, denied: Container[str]) -> None:
        """Do not hold against the CLI that it refused what we told it to."""
        self.refused_tools = [tool for tool in self.refused_tools if tool not in denied]
        self.unknown_tools = [tool for tool in self.unknown_tools if tool not in denied]


class OutputReader(Protocol):
    """Reads the output of one run."""

    state: OutputState

    def read(self, record: Mapping[str, Any]) -> Iterator[Message]:
        """What one object that the CLI printed says. Never raises, whatever is in it."""
        ...


class Driver(Protocol):
    name: str
    title: str
    program: str
    package: str
    """On npm."""
    minimum_version: str
    """The oldest version that was seen at work with the options and the output written here."""
    asks_first: bool
    """Whether it can be told to ask a tool of ours before it calls one."""
    works_without_key: bool
    """Whether some provider serves it without a key and without a login."""
    builtins: frozenset[str]
    """Names that the CLI has for tools of its own: a tool of ours that had one would be lost."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Variables of the user's that hold a key: one of them is enough. The first is the one to name to people."""
        ...

    @property
    def key_alternatives(self) -> tuple[str, ...]:
        """Variables of the user's with which it may need none: another address, or a cloud that knows the machine."""
        ...

    @property
    def passed_variables(self) -> tuple[str, ...]:
        """Other variables of the user's that it needs: addresses, projects, regions."""
        ...

    @property
    def logins(self) -> tuple[Login, ...]:
        """Used where none of the keys is set."""
        ...

    def launch_spec(self, run: RunSpec) -> LaunchSpec: ...

    def reader(self, run: str, tools: Iterable[str]) -> OutputReader:
        """For one run; `tools` are those that are served, under our names."""
        ...

    def model_ref(self, model: str, variables: Mapping[str, str]) -> ModelRef:
        """Whose model it is, to look up its price; empty where none was named."""
        ...

    def shown_name(self, tool: str) -> str:
        """What the model calls a tool of ours."""
        ...

    def served_name(self, tool: str) -> str:
        """What a tool of ours is called in the list that this CLI is served."""
        ...
