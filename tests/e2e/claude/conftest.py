"""A scripted model that speaks the Anthropic messages format, and Claude Code run against it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

PREFIX = "mcp__toolyard__"


def _events(blocks: list[dict[str, Any]], stop: str) -> bytes:
    events: list[dict[str, Any]] = [
        {
            "type": "message_start",
            "message": {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "scripted",
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            },
        }
    ]
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            opening, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            opening = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events += [
            {"type": "content_block_start", "index": index, "content_block": opening},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    events += [
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": {"output_tokens": 1},
        },
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def _results(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The tool results the model has been shown, in order."""
    found: list[dict[str, Any]] = []
    for message in body.get("messages", []):
        if isinstance(message["content"], list):
            found += [block for block in message["content"] if block["type"] == "tool_result"]
    return found


@pytest.fixture
def anthropic(model_server):
    """A model that plays a script: `anthropic([("Read", {...}), ...])`."""

    @dataclass
    class Anthropic(model_server):
        def reply(self, request):
            tools = [tool["name"] for tool in request.body.get("tools", [])]
            turn = len(_results(request.body))
            if not any(name.startswith(PREFIX) for name in tools) or turn >= len(self.script):
                return "text/event-stream", _events([{"type": "text", "text": "done"}], "end_turn")
            step = self.script[turn]
            call = {
                "type": "tool_use",
                "id": f"toolu_{turn}",
                "name": PREFIX + step["name"],
                "input": step["arguments"],
            }
            return "text/event-stream", _events([call], "tool_use")

        @property
        def conversation(self) -> dict[str, Any]:
            """The last request of the main conversation."""
            return max((request.body for request in self.requests), key=lambda body: len(_results(body)))

        @property
        def tools(self) -> list[str]:
            return [tool["name"] for tool in self.conversation["tools"]]

        @property
        def shown(self) -> list[dict[str, Any]]:
            """What the model was shown of each call."""
            return _results(self.conversation)

    def scripted(*steps: tuple[str, dict[str, Any]]) -> Anthropic:
        return Anthropic([{"name": name, "arguments": arguments} for name, arguments in steps])

    return scripted


@pytest.fixture
def claude(npm, yard):
    """Run Claude Code: `claude(model_url, *arguments)`; its `home` keeps what `claude mcp add` wrote."""

    def run(url: str, *arguments: str, **environment: str):
        variables = yard.environment(
            npm,
            ANTHROPIC_BASE_URL=url,
            ANTHROPIC_API_KEY="not-a-key",
            CLAUDE_CONFIG_DIR=str(yard.home / ".claude"),
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1",
            MCP_CONNECTION_NONBLOCKING="0",
            **environment,
        )
        return yard.run([npm.program("claude"), *arguments], variables)

    return run
