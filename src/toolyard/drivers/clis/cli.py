"""What all drivers share: names of tools, and the bookkeeping of a reader."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from toolyard.drivers.clis.error_hints import error_hint, is_retryable
from toolyard.drivers.driver import SERVER, Login, OutputState
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

TOOL_PREFIX = "ws_"
"""Before the name of a tool of ours that the CLI has one of its own for."""
TOOL_SECONDS = 3600
"""What a CLI is told to wait for a tool at most. The limits of our own tools and the run's deadline are shorter."""
START_SECONDS = 30
"""What a CLI is told to wait for our server."""

ATTEMPTS = 4
"""How often a CLI asks a provider that fails. Their own ten take minutes in which nobody is told anything."""


def split_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


class Cli:
    """One agent CLI: subclasses fill in the data, the recipe and the reader."""

    name = ""
    title = ""
    program = ""
    package = ""
    minimum_version = ""
    keys: tuple[str, ...] = ()
    key_alternatives: tuple[str, ...] = ()
    works_without_key = False
    passed_variables: tuple[str, ...] = ()
    logins: tuple[Login, ...] = ()
    asks_first = False
    builtins: frozenset[str] = frozenset()
    shadows_bare_names = False
    """It compares names with those of its own before it puts the server's in front."""
    tool_name_template = ""
    """How the model sees a tool: `{server}` and `{tool}`."""
    provider = ""
    """Whose models it uses, as genai-prices names it."""
    base_url_variable = ""
    """The variable with another address of the provider."""
    default_model = ""
    """Where none is named, and its output does not tell."""

    def __init__(self, server: str = SERVER) -> None:
        self.server = server

    def served_name(self, tool: str) -> str:
        return TOOL_PREFIX + tool if self.shadows_bare_names and tool in self.builtins else tool

    def model_ref(self, model: str, variables: Mapping[str, str]) -> ModelRef:
        return ModelRef(self.provider, model or self.default_model, variables.get(self.base_url_variable, ""))

    def shown_name(self, tool: str) -> str:
        """What the model calls a tool of ours."""
        return self.tool_name_template.format(server=self.server, tool=self.served_name(tool))


class BaseOutputReader:
    """Keeps what a stream has said. A reader says what happened; this makes the messages and remembers the rest."""

    refusal: re.Pattern[str] = re.compile(r"(?!)")
    """The words with which the CLI itself refuses a call. They begin so: our own refusals speak of permission too."""
    unknown: re.Pattern[str] = re.compile(r"(?!)")
    """The words with which it says that there is no such tool."""

    def __init__(self, cli: Cli, run: str, tools: Collection[str]) -> None:
        self.state = OutputState()
        self.cli = cli
        self._run = run
        self._tools_by_shown_name = {cli.shown_name(tool): tool for tool in tools}
        self._tools_by_served_name = {cli.served_name(tool): tool for tool in tools}
        self._tools_by_bare_name = {**self._tools_by_served_name, **{tool: tool for tool in tools}}
        self._prefix = cli.tool_name_template.format(server=cli.server, tool="")
        self._call_names: dict[str, str] = {}
        self._has_begun = False
        self._is_new_paragraph = False

    def begin_session(self, model: str = "", session: str = "") -> Iterator[Message]:
        if not self._has_begun:
            self._has_begun = True
            self.state.model = model
            yield SessionStarted(self._run, self.cli.name, model, session)

    def add_text(self, text: str) -> Iterator[Message]:
        """A piece of text. What follows a call begins a paragraph: the CLIs print nothing between the two."""
        if not text:
            return
        if self._is_new_paragraph and self.state.text:
            text = "\n\n" + text
        self._is_new_paragraph = False
        self.state.append_text(text)
        yield TextDelta(text)

    def add_call(self, call: str, name: str, arguments: Mapping[str, Any]) -> Iterator[Message]:
        if call in self.state.open_calls:  # told before; one that is answered has left its id to others
            return
        tool, ours = self._resolve_tool_name(name)
        self._call_names[call] = name
        self.state.open_calls[call] = tool
        self._is_new_paragraph = True
        yield ToolCall(call, tool, dict(arguments), ours)

    def add_result(self, call: str, text: str, *, ok: bool) -> Iterator[Message]:
        name = self._call_names.get(call, "")
        self.state.open_calls.pop(call, None)
        was_refused = self._record_refusal(name, text, ok=ok)
        status = ResultStatus.OK if ok else ResultStatus.REFUSED if was_refused else ResultStatus.FAILED
        yield ToolResult(call, status, text)

    def report_error(self, message: str) -> Iterator[Message]:
        """An error on the way."""
        yield Fault(message, error_hint(message, self.cli.title, self.cli.keys), is_retryable(message))

    def report_final_error(self, message: str) -> Iterator[Message]:
        """The error it ends with, told once."""
        message = message or "an error that it does not name"
        is_new = message != self.state.error
        self.state.error = message
        if is_new:
            yield from self.report_error(message)

    def report_usage(self) -> Iterator[Message]:
        yield Usage(self.state.tokens, self.state.cost)

    def _record_refusal(self, name: str, text: str, *, ok: bool) -> bool:
        """Whether the CLI itself refused the call. Counts calls of our tools by how they ended."""
        heard, (tool, ours) = self.state, self._resolve_tool_name(name)
        if not ok and self.unknown.search(text):
            if ours:
                heard.refused_tools.append(tool)
            elif name in self._tools_by_bare_name:
                heard.unknown_tools.append(self._tools_by_bare_name[name])
            return True
        if ours and not ok and self.refusal.search(text):
            heard.refused_tools.append(tool)
            return True
        heard.answered_calls += ours
        return False

    def _resolve_tool_name(self, name: str) -> tuple[str, bool]:
        if name in self._tools_by_shown_name:
            return self._tools_by_shown_name[name], True
        if name.startswith(self._prefix):
            served = name.removeprefix(self._prefix)
            return self._tools_by_served_name.get(served, served), True
        return name, False
