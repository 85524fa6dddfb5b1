"""The chat completions API of OpenAI, as Qwen Code and opencode use it."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.models.scripted import REASONS, Call, Request, Say, ScriptedModel, events

_USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


class Chat(ScriptedModel):
    def offered(self, body: dict[str, Any]) -> list[str]:
        return [tool["function"]["name"] for tool in body.get("tools", [])]

    def results(self, body: dict[str, Any]) -> list[Any]:
        return [message["content"] for message in body.get("messages", []) if message["role"] == "tool"]

    def words_of(self, result: Any) -> str:
        return result if isinstance(result, str) else "".join(part.get("text", "") for part in result)

    def error(self, status: int) -> dict[str, Any]:
        _, kind, message = REASONS[status]
        return {"error": {"type": kind, "code": kind, "message": message}}

    def answer(self, request: Request, step: Call | Say, turn: int) -> tuple[str, bytes]:
        if isinstance(step, Say):
            message: dict[str, Any] = {"role": "assistant", "content": step.text}
        else:
            function = {"name": self.prefix + step.tool, "arguments": json.dumps(step.arguments)}
            call = {"index": 0, "id": f"call_{turn}", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        reason = "stop" if isinstance(step, Say) else "tool_calls"
        answer = {"id": f"chat_{turn}", "created": 1, "model": "scripted"}
        if not request.body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return "application/json", json.dumps({**answer, "choices": [choice], "usage": _USAGE}).encode()
        answer["object"] = "chat.completion.chunk"
        pieces = ({"delta": message, "finish_reason": None}, {"delta": {}, "finish_reason": reason})
        chunks = [{**answer, "choices": [{"index": 0, **piece}]} for piece in pieces]
        chunks[-1]["usage"] = _USAGE
        return "text/event-stream", events(*chunks) + b"data: [DONE]\n\n"
