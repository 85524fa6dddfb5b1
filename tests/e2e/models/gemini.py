"""The API of Gemini, as Gemini CLI uses it: `streamGenerateContent`."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.models.scripted import REASONS, Call, Request, Say, ScriptedModel, events

ROUTED = {"complexity_reasoning": "it is short", "complexity_score": 10}
"""What Gemini CLI asks a small model for before the first turn, where no model is named. It has to be JSON: for other
words it asks again, five times in a minute and a half."""


class Gemini(ScriptedModel):
    def offered(self, body: dict[str, Any]) -> list[str]:
        tools = body.get("tools", [])
        return [declared["name"] for tool in tools for declared in tool.get("functionDeclarations", [])]

    def results(self, body: dict[str, Any]) -> list[Any]:
        return [part["functionResponse"]["response"] for part in _parts(body) if "functionResponse" in part]

    def words_of(self, result: Any) -> str:
        return result.get("output") or result.get("error") or ""

    def aside(self, request: Request) -> dict[str, Any] | None:
        return {"totalTokens": 1} if "countTokens" in request.path else None

    def error(self, status: int) -> dict[str, Any]:
        kind, _, message = REASONS[status]
        return {"error": {"code": status, "message": message, "status": kind}}

    def answer(self, request: Request, step: Call | Say, turn: int) -> tuple[str, bytes]:
        if request.body.get("generationConfig", {}).get("responseMimeType") == "application/json":
            step = Say(json.dumps(ROUTED))
        if isinstance(step, Say):
            part: dict[str, Any] = {"text": step.text}
        else:
            part = {"functionCall": {"name": self.prefix + step.tool, "args": step.arguments}}
        answer = {
            "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
        }
        if "stream" in request.path:
            return "text/event-stream", events(answer)
        return "application/json", json.dumps(answer).encode()

    @property
    def parts(self) -> list[dict[str, Any]]:
        return _parts(self.conversation)


def _parts(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for content in body.get("contents", []) for part in content.get("parts", [])]
