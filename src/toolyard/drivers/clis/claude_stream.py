"""Reads the `--output-format stream-json` of Claude Code, which Qwen Code prints as well."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

from toolyard.drivers.clis.cli import BaseOutputReader, Cli
from toolyard.drivers.clis.json_access import (
    blocks_text,
    error_message,
    get_cost,
    get_count,
    get_object,
    get_objects,
    get_text,
    parse_arguments,
)
from toolyard.drivers.driver import OutputReader
from toolyard.drivers.messages import Message, Tokens

_SYNTHETIC = "<synthetic>"
"""The model name in messages that Claude Code writes in place of the model."""
_UNREACHABLE_STATUSES = frozenset({"failed", "needs-auth", "disabled", "disconnected"})


class ClaudeStreamReader(BaseOutputReader, OutputReader):
    refusal = re.compile(r"^(Error: )?(Permission to use \S+ has been denied|Claude requested permissions to use )")
    unknown = re.compile(r"^(<tool_use_error>)?(Error: )?No such tool available")
    error_text = re.compile(r"(?!)")
    """Matches text of the model that is really an error."""
    counts_cached_apart = True
    """Anthropic does not count cached tokens as input."""

    def __init__(self, cli: Cli, run: str, tools: Collection[str]) -> None:
        super().__init__(cli, run, tools)
        self._pieces: list[str] = []
        """Streamed text deltas, which the complete message repeats."""

    def read(self, record: Mapping[str, Any]) -> Iterator[Message]:
        kind = get_text(record, "type")
        if kind == "system":
            yield from self._system(record)
        elif kind == "stream_event":
            yield from self._stream_event(get_object(record, "event"))
        elif kind == "assistant":
            yield from self._assistant(record)
        elif kind == "user":
            for block in get_objects(get_object(record, "message"), "content"):
                if get_text(block, "type") == "tool_result":
                    result_text, ok = blocks_text(block.get("content")), block.get("is_error") is not True
                    yield from self.add_result(get_text(block, "tool_use_id"), result_text, ok=ok)
        elif kind == "result":
            yield from self._result(record)

    def _system(self, record: Mapping[str, Any]) -> Iterator[Message]:
        if get_text(record, "subtype") == "api_retry":
            status = record.get("error_status") or ""
            yield from self.report_error(
                f"The provider request was retried: {status} {error_message(record.get('error'))}"
            )
        if get_text(record, "subtype") != "init":
            return
        yield from self.begin_session(get_text(record, "model"), get_text(record, "session_id"))
        for server in get_objects(record, "mcp_servers"):
            if get_text(server, "name") == self.cli.server and get_text(server, "status") in _UNREACHABLE_STATUSES:
                self.state.lost_server = True
                yield from self.report_error(f"{self.cli.title} could not reach our tools.")

    def _stream_event(self, event: Mapping[str, Any]) -> Iterator[Message]:
        if get_text(event, "type") == "message_start":
            self._pieces = []
        delta = get_object(event, "delta")
        if get_text(event, "type") == "content_block_delta" and get_text(delta, "type") == "text_delta":
            text = get_text(delta, "text")
            if not self.error_text.search(text):
                self._pieces.append(text)
                yield from self.add_text(text)

    def _assistant(self, record: Mapping[str, Any]) -> Iterator[Message]:
        message = get_object(record, "message")
        is_error = get_text(message, "model") == _SYNTHETIC or bool(get_text(record, "error"))
        for block in get_objects(message, "content"):
            kind, text = get_text(block, "type"), get_text(block, "text")
            if kind in {"tool_use", "text"}:
                self.state.error = ""  # It recovered from the error it reported before.
            if kind == "tool_use":
                yield from self.add_call(
                    get_text(block, "id"), get_text(block, "name"), parse_arguments(block.get("input"))
                )
            elif kind == "text" and (is_error or self.error_text.search(text)):
                yield from self.report_final_error(text)
            elif kind == "text" and self._was_streamed(text):
                continue
            elif kind == "text":
                yield from self.add_text(text)

    def _was_streamed(self, text: str) -> bool:
        streamed = "".join(self._pieces)
        if not text or not streamed.startswith(text):
            return False
        self._pieces = [streamed.removeprefix(text)]
        return True

    def _result(self, record: Mapping[str, Any]) -> Iterator[Message]:
        state, usage = self.state, get_object(record, "usage")
        cached = get_count(usage, "cache_read_input_tokens")
        fresh = get_count(usage, "input_tokens") + get_count(usage, "cache_creation_input_tokens")
        state.tokens = Tokens(fresh + cached * self.counts_cached_apart, get_count(usage, "output_tokens"), cached)
        state.cost = get_cost(record, "total_cost_usd")
        state.is_over = True
        yield from self.report_usage()
        if record.get("is_error") is True or get_text(record, "subtype") != "success":
            message = get_text(record, "result") or error_message(record.get("error")) or _joined_errors(record)
            yield from self.report_final_error(message or get_text(record, "subtype").replace("_", " "))


def _joined_errors(record: Mapping[str, Any]) -> str:
    errors = record.get("errors")
    return "; ".join(str(each) for each in cast("list[object]", errors)) if isinstance(errors, list) else ""
