"""Base classes of the drivers: tool names, and the state of an output reader."""

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
"""Prefix of our tools whose names the CLI uses itself."""
TOOL_SECONDS = 3600
"""Maximum time a CLI waits for a tool. Our tools' limits and the run's deadline are shorter."""
START_SECONDS = 30
"""Maximum time a CLI waits for our server."""

ATTEMPTS = 4
"""How often a CLI retries a failing provider. Their default of ten takes minutes without any output."""


def split_words(text: str) -> frozenset[str]:
    """Returns the words of a text."""
    return frozenset(text.split())


class Cli:
    """One agent CLI: subclasses fill in the data, the launch spec and the reader."""

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
    """The CLI compares bare tool names with its own before it adds the server's prefix."""
    tool_name_template = ""
    """Tool name as the model sees it, with `{server}` and `{tool}`."""
    provider = ""
    """Provider of its models, as genai-prices names it."""
    base_url_variable = ""
    """Variable that overrides the provider's address."""
    default_model = ""
    """Model for prices if none is named and the output does not say."""

    def __init__(self, server: str = SERVER) -> None:
        self.server = server

    def served_name(self, tool: str) -> str:
        """Returns the name under which this CLI gets one of our tools."""
        return TOOL_PREFIX + tool if self.shadows_bare_names and tool in self.builtins else tool

    def model_ref(self, model: str, variables: Mapping[str, str]) -> ModelRef:
        """Returns the provider and model for a price lookup."""
        return ModelRef(self.provider, model or self.default_model, variables.get(self.base_url_variable, ""))

    def shown_name(self, tool: str) -> str:
        """Returns the name by which the model calls one of our tools."""
        return self.tool_name_template.format(server=self.server, tool=self.served_name(tool))


class BaseOutputReader:
    """Base of output readers: builds the messages and keeps the state of the run."""

    refusal: re.Pattern[str] = re.compile(r"(?!)")
    """Start of the text with which the CLI itself refuses a call. Our own refusals mention permission too."""
    unknown: re.Pattern[str] = re.compile(r"(?!)")
    """Start of the text with which the CLI reports an unknown tool."""

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
        """Yields SessionStarted once."""
        if not self._has_begun:
            self._has_begun = True
            self.state.model = model
            yield SessionStarted(self._run, self.cli.name, model, session)

    def add_text(self, text: str) -> Iterator[Message]:
        """Adds model text. Text after a call starts a new paragraph, because CLIs print no separator."""
        if not text:
            return
        if self._is_new_paragraph and self.state.text:
            text = "\n\n" + text
        self._is_new_paragraph = False
        self.state.append_text(text)
        yield TextDelta(text)

    def add_call(self, call: str, name: str, arguments: Mapping[str, Any]) -> Iterator[Message]:
        """Yields the ToolCall, once per open call."""
        if call in self.state.open_calls:  # already reported; an answered call frees its id
            return
        tool, ours = self._resolve_tool_name(name)
        self._call_names[call] = name
        self.state.open_calls[call] = tool
        self._is_new_paragraph = True
        yield ToolCall(call, tool, dict(arguments), ours)

    def add_result(self, call: str, text: str, *, ok: bool) -> Iterator[Message]:
        """Yields the ToolResult of a call."""
        name = self._call_names.get(call, "")
        self.state.open_calls.pop(call, None)
        was_refused = self._record_refusal(name, text, ok=ok)
        status = ResultStatus.OK if ok else ResultStatus.REFUSED if was_refused else ResultStatus.FAILED
        yield ToolResult(call, status, text)

    def report_error(self, message: str) -> Iterator[Message]:
        """Reports an error that does not end the run."""
        yield Fault(message, error_hint(message, self.cli.title, self.cli.keys), is_retryable(message))

    def report_final_error(self, message: str) -> Iterator[Message]:
        """Reports the error that ends the run, once."""
        message = message or "unspecified error"
        is_new = message != self.state.error
        self.state.error = message
        if is_new:
            yield from self.report_error(message)

    def report_usage(self) -> Iterator[Message]:
        """Yields the tokens so far."""
        yield Usage(self.state.tokens, self.state.cost)

    def _record_refusal(self, name: str, text: str, *, ok: bool) -> bool:
        """Returns whether the CLI itself refused the call, and counts the calls of our tools."""
        state, (tool, ours) = self.state, self._resolve_tool_name(name)
        if not ok and self.unknown.search(text):
            if ours:
                state.refused_tools.append(tool)
            elif name in self._tools_by_bare_name:
                state.unknown_tools.append(self._tools_by_bare_name[name])
            return True
        if ours and not ok and self.refusal.search(text):
            state.refused_tools.append(tool)
            return True
        state.answered_calls += ours
        return False

    def _resolve_tool_name(self, name: str) -> tuple[str, bool]:
        if name in self._tools_by_shown_name:
            return self._tools_by_shown_name[name], True
        if name.startswith(self._prefix):
            served = name.removeprefix(self._prefix)
            return self._tools_by_served_name.get(served, served), True
        return name, False
