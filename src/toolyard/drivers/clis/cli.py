"""What all drivers share: names of tools, and the bookkeeping of a reader."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from toolyard.drivers.clis.error_hints import advice, is_retryable
from toolyard.drivers.driver import SERVER, Heard, Login
from toolyard.drivers.messages import (
    Fault,
    Message,
    ResultStatus,
    SessionStarted,
    TextDelta,
    ToolCall,
    ToolResult,
    Usage,
)
from toolyard.models.pricing import ModelRef

OTHER_NAME = "ws_"
"""Before the name of a tool of ours that the CLI has one of its own for."""
TOOL_SECONDS = 3600
"""What a CLI is told to wait for a tool at most. The limits of our own tools and the run's deadline are shorter."""
START_SECONDS = 30
"""What a CLI is told to wait for our server."""

ATTEMPTS = 4
"""How often a CLI asks a provider that fails. Their own ten take minutes in which nobody is told anything."""


def words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


class Cli:
    """One agent CLI: subclasses fill in the data, the recipe and the reader."""

    name = ""
    title = ""
    program = ""
    package = ""
    minimum = ""
    keys: tuple[str, ...] = ()
    instead_of_key: tuple[str, ...] = ()
    works_without_key = False
    handed_on: tuple[str, ...] = ()
    logins: tuple[Login, ...] = ()
    asks_first = False
    builtins: frozenset[str] = frozenset()
    loses_bare_names = False
    """It compares names with those of its own before it puts the server's in front."""
    shown_as = ""
    """How the model sees a tool: `{server}` and `{tool}`."""
    provider = ""
    """Whose models it uses, as genai-prices names it."""
    address = ""
    """The variable with another address of the provider."""
    default_model = ""
    """Where none is named, and its output does not tell."""

    def __init__(self, server: str = SERVER) -> None:
        self.server = server

    def served_name(self, tool: str) -> str:
        return OTHER_NAME + tool if self.loses_bare_names and tool in self.builtins else tool

    def model_ref(self, model: str, variables: Mapping[str, str]) -> ModelRef:
        return ModelRef(self.provider, model or self.default_model, variables.get(self.address, ""))

    def shown_name(self, tool: str) -> str:
        """What the model calls a tool of ours."""
        return self.shown_as.format(server=self.server, tool=self.served_name(tool))


class Listener:
    """Keeps what a stream has said. A reader says what happened; this makes the messages and remembers the rest."""

    refusal: re.Pattern[str] = re.compile(r"(?!)")
    """The words with which the CLI itself refuses a call. They begin so: our own refusals speak of permission too."""
    unknown: re.Pattern[str] = re.compile(r"(?!)")
    """The words with which it says that there is no such tool."""

    def __init__(self, cli: Cli, run: str, tools: Collection[str]) -> None:
        self.heard = Heard()
        self.cli = cli
        self._run = run
        self._by_shown = {cli.shown_name(tool): tool for tool in tools}
        self._by_served = {cli.served_name(tool): tool for tool in tools}
        self._bare = {**self._by_served, **{tool: tool for tool in tools}}
        self._prefix = cli.shown_as.format(server=cli.server, tool="")
        self._names: dict[str, str] = {}
        self._has_begun = False
        self._is_new_paragraph = False

    def began(self, model: str = "", session: str = "") -> Iterator[Message]:
        if not self._has_begun:
            self._has_begun = True
            self.heard.model = model
            yield SessionStarted(self._run, self.cli.name, model, session)

    def said(self, words: str) -> Iterator[Message]:
        """A piece of text. What follows a call begins a paragraph: the CLIs print nothing between the two."""
        if not words:
            return
        if self._is_new_paragraph and self.heard.text:
            words = "\n\n" + words
        self._is_new_paragraph = False
        self.heard.keep(words)
        yield TextDelta(words)

    def called(self, call: str, name: str, arguments: Mapping[str, Any]) -> Iterator[Message]:
        if call in self.heard.open_calls:  # told before; one that is answered has left its id to others
            return
        tool, ours = self._ours(name)
        self._names[call] = name
        self.heard.open_calls[call] = tool
        self._is_new_paragraph = True
        yield ToolCall(call, tool, dict(arguments), ours)

    def answered(self, call: str, words: str, *, ok: bool) -> Iterator[Message]:
        name = self._names.get(call, "")
        self.heard.open_calls.pop(call, None)
        was_refused = self._judge(name, words, ok=ok)
        status = ResultStatus.OK if ok else ResultStatus.REFUSED if was_refused else ResultStatus.FAILED
        yield ToolResult(call, status, words)

    def troubled(self, words: str) -> Iterator[Message]:
        """An error on the way."""
        yield Fault(words, advice(words, self.cli.title, self.cli.keys), is_retryable(words))

    def failed(self, words: str) -> Iterator[Message]:
        """The error it ends with, told once."""
        words = words or "an error that it does not name"
        is_new = words != self.heard.error
        self.heard.error = words
        if is_new:
            yield from self.troubled(words)

    def counted(self) -> Iterator[Message]:
        yield Usage(self.heard.tokens, self.heard.cost)

    def _judge(self, name: str, words: str, *, ok: bool) -> bool:
        """Whether the CLI itself refused the call. Counts calls of our tools by how they ended."""
        heard, (tool, ours) = self.heard, self._ours(name)
        if not ok and self.unknown.search(words):
            if ours:
                heard.refused_tools.append(tool)
            elif name in self._bare:
                heard.unknown_tools.append(self._bare[name])
            return True
        if ours and not ok and self.refusal.search(words):
            heard.refused_tools.append(tool)
            return True
        heard.answered += ours
        return False

    def _ours(self, name: str) -> tuple[str, bool]:
        if name in self._by_shown:
            return self._by_shown[name], True
        if name.startswith(self._prefix):
            served = name.removeprefix(self._prefix)
            return self._by_served.get(served, served), True
        return name, False
