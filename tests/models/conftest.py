"""Models through the real SDKs, against a loopback model that speaks each provider's wire format."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from toolyard.config.models import Backend
from toolyard.models.chat_model import ChatModel
from toolyard.models.conversation import Conversation
from toolyard.models.factory import open_model
from toolyard.models.messages import OfferedTool, StreamEvent, TurnResult
from toolyard.testing.mock_model import ModelServer, ScriptLike, serve_model

KINDS = ("gemini", "openai", "claude")
MODELS = {"gemini": "gemini-2.5-flash", "openai": "gpt-5-mini", "claude": "claude-haiku-4-5"}
READ = OfferedTool(
    "Read",
    "Reads a file.",
    {"type": "object", "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]},
)


def address(server: ModelServer, kind: str) -> str:
    return {"gemini": server.gemini, "claude": server.anthropic}.get(kind, server.openai)


@dataclass
class Talk:
    """A model, the server behind it, a conversation with it, and what was heard."""

    server: ModelServer
    model: ChatModel
    conversation: Conversation = field(default_factory=Conversation)
    heard: list[StreamEvent] = field(default_factory=list)

    async def turn(self, **options: Any) -> TurnResult:
        return await self.model.turn(self.conversation, on_event=self.heard.append, **{"tools": (READ,), **options})

    async def say(self, text: str, **options: Any) -> TurnResult:
        self.conversation.add_question(text)
        return await self.turn(**options)

    def all_heard(self, kind: type) -> list[Any]:
        return [each for each in self.heard if isinstance(each, kind)]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@asynccontextmanager
async def talking(
    kind: str, script: ScriptLike, *, key: str = "", patience: float = 30.0, first_pause: float = 0.01, **keys: Any
) -> AsyncGenerator[Talk]:
    """`keys` are of the backend, but for those that open a model."""
    opening = {name: keys.pop(name) for name in ("wording", "most_tries") if name in keys}
    with serve_model(script, key=key) as server:
        backend = Backend(
            type=kind, model=keys.pop("model", "") or MODELS[kind], base_url=address(server, kind), **keys
        )
        model = open_model(backend, {}, patience=patience, first_pause=first_pause, **opening)
        try:
            yield Talk(server, model)
        finally:
            await model.close()


@pytest.fixture
def talk(kind: str) -> Callable[..., Any]:
    """`async with talk(script) as t`: one for each of the APIs."""
    return lambda script, **options: talking(kind, script, **options)
