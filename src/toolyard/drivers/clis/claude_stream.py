"""The output of Claude Code, and of Qwen Code, which prints the same: `--output-format stream-json`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

from toolyard.drivers.clis.cli import Cli, Listener
from toolyard.drivers.clis.json_access import arguments, blocks, count, inner, message_of, money, objects, text
from toolyard.drivers.driver import Reader
from toolyard.drivers.messages import Message, Tokens

_SYNTHETIC = "<synthetic>"
"""The model of what Claude Code says in the model's place."""
_LOST = frozenset({"failed", "needs-auth", "disabled", "disconnected"})


class ClaudeStreamReader(Listener, Reader):
    refusal = re.compile(r"^(Error: )?(Permission to use \S+ has been denied|Claude requested permissions to use )")
    unknown = re.compile(r"^(<tool_use_error>)?(Error: )?No such tool available")
    error_text = re.compile(r"(?!)")
    """What looks like a text of the model and is an error."""
    counts_cached_apart = True
    """Anthropic does not count what was read from the cache among the input."""

    def __init__(self, cli: Cli, run: str, tools: Collection[str]) -> None:
        super().__init__(cli, run, tools)
        self._pieces: list[str] = []
        """Text that came bit by bit and will come again, whole."""

    def read(self, record: Mapping[str, Any]) -> Iterator[Message]:
        kind = text(record, "type")
        if kind == "system":
            yield from self._system(record)
        elif kind == "stream_event":
            yield from self._piece(inner(record, "event"))
        elif kind == "assistant":
            yield from self._assistant(record)
        elif kind == "user":
            for block in objects(inner(record, "message"), "content"):
                if text(block, "type") == "tool_result":
                    words, ok = blocks(block.get("content")), block.get("is_error") is not True
                    yield from self.answered(text(block, "tool_use_id"), words, ok=ok)
        elif kind == "result":
            yield from self._result(record)

    def _system(self, record: Mapping[str, Any]) -> Iterator[Message]:
        if text(record, "subtype") == "api_retry":
            status = record.get("error_status") or ""
            yield from self.troubled(f"The provider was asked again: {status} {message_of(record.get('error'))}")
        if text(record, "subtype") != "init":
            return
        yield from self.began(text(record, "model"), text(record, "session_id"))
        for server in objects(record, "mcp_servers"):
            if text(server, "name") == self.cli.server and text(server, "status") in _LOST:
                self.heard.lost_server = True
                yield from self.troubled(f"{self.cli.title} could not reach our tools.")

    def _piece(self, event: Mapping[str, Any]) -> Iterator[Message]:
        if text(event, "type") == "message_start":
            self._pieces = []
        delta = inner(event, "delta")
        if text(event, "type") == "content_block_delta" and text(delta, "type") == "text_delta":
            words = text(delta, "text")
            if not self.error_text.search(words):
                self._pieces.append(words)
                yield from self.said(words)

    def _assistant(self, record: Mapping[str, Any]) -> Iterator[Message]:
        message = inner(record, "message")
        is_error = text(message, "model") == _SYNTHETIC or bool(text(record, "error"))
        for block in objects(message, "content"):
            kind, words = text(block, "type"), text(block, "text")
            if kind in {"tool_use", "text"}:
                self.heard.error = ""  # It came over what it told before.
            if kind == "tool_use":
                yield from self.called(text(block, "id"), text(block, "name"), arguments(block.get("input")))
            elif kind == "text" and (is_error or self.error_text.search(words)):
                yield from self.failed(words)
            elif kind == "text" and self._was_streamed(words):
                continue
            elif kind == "text":
                yield from self.said(words)

    def _was_streamed(self, words: str) -> bool:
        streamed = "".join(self._pieces)
        if not words or not streamed.startswith(words):
            return False
        self._pieces = [streamed.removeprefix(words)]
        return True

    def _result(self, record: Mapping[str, Any]) -> Iterator[Message]:
        heard, usage = self.heard, inner(record, "usage")
        cached = count(usage, "cache_read_input_tokens")
        fresh = count(usage, "input_tokens") + count(usage, "cache_creation_input_tokens")
        heard.tokens = Tokens(fresh + cached * self.counts_cached_apart, count(usage, "output_tokens"), cached)
        heard.cost = money(record, "total_cost_usd")
        heard.is_over = True
        yield from self.counted()
        if record.get("is_error") is True or text(record, "subtype") != "success":
            said = text(record, "result") or message_of(record.get("error")) or _errors(record)
            yield from self.failed(said or text(record, "subtype").replace("_", " "))


def _errors(record: Mapping[str, Any]) -> str:
    said = record.get("errors")
    return "; ".join(str(each) for each in cast("list[object]", said)) if isinstance(said, list) else ""
