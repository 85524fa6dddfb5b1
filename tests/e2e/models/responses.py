"""The responses API of OpenAI, as Codex uses it: the tools of a server are in a namespace."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.models.scripted import REASONS, Call, Request, Say, ScriptedModel, events

_USAGE = {
    "input_tokens": 1,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 1,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 2,
}


class Responses(ScriptedModel):
    def offered(self, body: dict[str, Any]) -> list[str]:
        names: list[str] = []
        for tool in body.get("tools", []):
            if tool["type"] == "namespace":
                names += [f"{tool['name']}__{inner['name']}" for inner in tool["tools"]]
            else:
                names.append(tool.get("name", tool["type"]))
        return names

    def results(self, body: dict[str, Any]) -> list[Any]:
        found = body.get("input", [])
        return [item["output"] for item in found if item.get("type") == "function_call_output"]

    def words_of(self, result: Any) -> str:
        return result if isinstance(result, str) else "".join(part.get("text", "") for part in result)

    def error(self, status: int) -> dict[str, Any]:
        _, kind, message = REASONS[status]
        return {"error": {"type": kind, "code": kind, "message": message}}

    def answer(self, request: Request, step: Call | Say, turn: int) -> tuple[str, bytes]:
        begun: tuple[dict[str, Any], ...] = ()
        if isinstance(step, Say):
            item: dict[str, Any] = {"type": "message", "role": "assistant", "id": f"msg_{turn}"}
            place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
            begun = (
                {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
                {"type": "response.output_text.delta", **place, "delta": step.text},
            )
            item["content"] = [{"type": "output_text", "text": step.text}]
        else:
            item = {"type": "function_call", "id": f"fc_{turn}", "call_id": f"call_{turn}", "name": step.tool}
            item |= {"namespace": self.prefix.removesuffix("__"), "arguments": json.dumps(step.arguments)}
        response = {"id": f"resp_{turn}", "output": [item], "usage": _USAGE}
        return "text/event-stream", events(
            {"type": "response.created", "response": {"id": response["id"]}},
            *begun,
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": response},
            named=True,
        )
