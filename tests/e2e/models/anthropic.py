"""The messages API of Anthropic, as Claude Code uses it."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.models.scripted import REASONS, Call, Request, Say, ScriptedModel, events


class Anthropic(ScriptedModel):
    def offered(self, body: dict[str, Any]) -> list[str]:
        return [tool["name"] for tool in body.get("tools", [])]

    def results(self, body: dict[str, Any]) -> list[Any]:
        found: list[Any] = []
        for message in body.get("messages", []):
            if isinstance(message["content"], list):
                found += [block for block in message["content"] if block["type"] == "tool_result"]
        return found

    def words_of(self, result: Any) -> str:
        content = result["content"]
        return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)

    def aside(self, request: Request) -> dict[str, Any] | None:
        return {"input_tokens": 1} if "count_tokens" in request.path else None

    def error(self, status: int) -> dict[str, Any]:
        _, kind, message = REASONS[status]
        return {"type": "error", "error": {"type": kind, "message": message}}

    def answer(self, request: Request, step: Call | Say, turn: int) -> tuple[str, bytes]:
        if isinstance(step, Say):
            block = {"type": "text", "text": ""}
            whole = {"type": "text", "text": step.text}
            delta = {"type": "text_delta", "text": step.text}
        else:
            block = {"type": "tool_use", "id": f"toolu_{turn}", "name": self.prefix + step.tool, "input": {}}
            whole = {**block, "input": step.arguments}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(step.arguments)}
        stop = {"stop_reason": "end_turn" if isinstance(step, Say) else "tool_use", "stop_sequence": None}
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        if not request.body.get("stream"):
            return "application/json", json.dumps({**message, **stop, "content": [whole]}).encode()
        return "text/event-stream", events(
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
            named=True,
        )
