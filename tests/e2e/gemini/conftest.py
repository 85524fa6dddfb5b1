"""A scripted model that speaks the Gemini API's format, and Gemini CLI run against it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

PREFIX = "mcp_toolyard_"
SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}


def _parts(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for content in body.get("contents", []) for part in content.get("parts", [])]


def _results(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The tool results the model has been shown, in order."""
    return [part["functionResponse"] for part in _parts(body) if "functionResponse" in part]


@pytest.fixture
def gemini_model(model_server):
    """A model that plays a script: `gemini_model(("Read", {...}), ...)`."""

    @dataclass
    class Gemini(model_server):
        def reply(self, request):
            if "countTokens" in request.path:
                return "application/json", b'{"totalTokens": 1}'
            turn = len(_results(request.body))
            if turn >= len(self.script) or not self._offered(request.body):
                part = {"text": "done"}
            else:
                step = self.script[turn]
                part = {"functionCall": {"name": PREFIX + step["name"], "args": step["arguments"]}}
            answer = {
                "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
                "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
            }
            if "stream" in request.path:
                return "text/event-stream", f"data: {json.dumps(answer)}\r\n\r\n".encode()
            return "application/json", json.dumps(answer).encode()

        @staticmethod
        def _offered(body: dict[str, Any]) -> list[str]:
            return [
                declared["name"]
                for tool in body.get("tools", [])
                for declared in tool.get("functionDeclarations", [])
            ]

        @property
        def conversation(self) -> dict[str, Any]:
            """The last request of the main conversation."""
            return max((request.body for request in self.requests), key=lambda body: len(_results(body)))

        @property
        def tools(self) -> list[str]:
            return self._offered(self.conversation)

        @property
        def shown(self) -> list[dict[str, Any]]:
            """What the model was shown of each call."""
            return [result["response"] for result in _results(self.conversation)]

        @property
        def parts(self) -> list[dict[str, Any]]:
            return _parts(self.conversation)

    def scripted(*steps: tuple[str, dict[str, Any]]) -> Gemini:
        return Gemini([{"name": name, "arguments": arguments} for name, arguments in steps])

    return scripted


@pytest.fixture
def gemini(npm, yard):
    """Run Gemini CLI: `gemini(model_url, *arguments)`."""
    folder = yard.home / ".gemini"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps(SETTINGS))

    def run(url: str, *arguments: str, **environment: str):
        variables = yard.environment(
            npm,
            GEMINI_CLI_HOME=str(yard.home),
            GEMINI_API_KEY="not-a-key",
            GOOGLE_GEMINI_BASE_URL=url,
            GEMINI_CLI_NO_RELAUNCH="true",
            **environment,
        )
        return yard.run([npm.program("gemini"), *arguments], variables)

    return run
