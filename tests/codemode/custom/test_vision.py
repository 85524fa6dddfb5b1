"""A model that sees, over the wire formats of its providers, played by a server on loopback."""

from __future__ import annotations

import base64
import http.server
import json
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from toolyard.codemode.custom import ToolContext, load_custom_tools
from toolyard.config.custom_tools import Vision
from toolyard.config.models import Config, ToolyardSection
from toolyard.config.settings import Settings
from toolyard.core.errors import ToolError, ValidationError

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
KEY = "sk-hunter2"


@dataclass
class Model:
    """What the server was asked, and what it answers next."""

    url: str
    status: int = 200
    answer: Any = None
    asked: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)


@pytest.fixture
def model():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            played.asked.append((self.path, {key.lower(): value for key, value in self.headers.items()}, body))
            answer = played.answer if isinstance(played.answer, bytes) else json.dumps(played.answer).encode()
            self.send_response(played.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    played = Model(f"http://127.0.0.1:{server.server_port}/v1")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield played
    server.shutdown()
    thread.join()
    server.server_close()


class Files:
    def read(self, path: str) -> bytes:
        if path != "shot.png":
            raise ToolError(f"{path} does not exist.")
        return PNG

    def write(self, path: str, data: bytes) -> str:
        raise AssertionError


def said(text: str) -> dict[str, Any]:
    """An answer of OpenAI's chat completions."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o-mini",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


async def ask(env: dict[str, str], arguments: dict[str, Any], vision: Vision | None = None) -> str:
    section = ToolyardSection(available_custom_tools=("multimodal.vision_understanding",), vision=vision or Vision())
    tools = load_custom_tools(Config(toolyard=section), Settings.from_environment(env), Files())
    return (await tools.call("multimodal", "vision_understanding", arguments)).text


async def test_openais_wire_format_is_spoken(model):
    model.answer = said("a red dot")
    env = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": model.url}

    assert await ask(env, {"image_path": "shot.png", "prompt": "What is it?"}) == "a red dot"

    ((path, headers, body),) = model.asked
    assert (path, headers["authorization"]) == ("/v1/chat/completions", f"Bearer {KEY}")
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    content = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": url}}]
    assert body == {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": content}]}


async def test_geminis_wire_format_is_spoken(model):
    model.answer = {
        "candidates": [
            {"content": {"role": "model", "parts": [{"text": "a "}, {"text": "dot"}]}, "finishReason": "STOP"}
        ]
    }
    env = {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": model.url}

    assert await ask(env, {"image_path": "shot.png", "question": "What?"}, Vision(model="gemini-x")) == "a dot"

    ((path, headers, body),) = model.asked
    assert (path, headers["x-goog-api-key"]) == ("/v1/models/gemini-x:generateContent", KEY)
    picture = {"inline_data": {"mime_type": "image/png", "data": base64.b64encode(PNG).decode()}}
    assert body == {"contents": [{"role": "user", "parts": [{"text": "What?"}, picture]}]}


@pytest.mark.parametrize(
    "image", [base64.b64encode(PNG).decode(), f"data:image/png;base64,{base64.b64encode(PNG).decode()}"]
)
async def test_a_picture_can_be_handed_over_without_a_file_and_a_server_of_ones_own_wants_no_key(model, image):
    model.answer = said("x")
    assert await ask({}, {"image": image}, Vision(base_url=model.url, model="llava")) == "x"
    assert "authorization" not in model.asked[0][1]
    assert model.asked[0][2]["messages"][0]["content"][0]["text"] == "Describe this picture."


@pytest.mark.parametrize(
    ("vision", "variable"),
    [
        (Vision(), "OPENAI_API_KEY or GEMINI_API_KEY"),
        (Vision(provider="gemini"), "GEMINI_API_KEY"),
        (Vision(provider="openai"), "OPENAI_API_KEY"),
    ],
)
async def test_without_a_key_the_variable_to_set_is_named(vision, variable):
    with pytest.raises(ToolError, match=f"set the variable {variable} where"):
        await ask({}, {"image_path": "shot.png"}, vision)


@pytest.mark.parametrize(
    ("status", "answer", "message", "hint", "retryable"),
    [
        (
            401,
            {"error": {"message": f"Incorrect API key provided: {KEY}"}},
            "status 401: Incorrect",
            "OPENAI_API_KEY",
            False,
        ),
        (429, {"error": {"message": "Rate limit"}}, "status 429: Rate limit", "Try again later", True),
        (500, b"<html>", "status 500.", "Try again later", True),
        (400, {"error": "odd"}, "status 400.", "toolyard.vision", False),
        (200, b"not json", "is not JSON", "base_url", False),
        (200, {"choices": []}, "returned no text", "Rephrase", False),
        (
            200,
            {"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]},
            "content_filter",
            "",
            False,
        ),
        (200, b"x" * (5 << 20), "larger than", "", False),
    ],
)
async def test_what_a_model_refuses_is_a_clear_error_without_the_key(model, status, answer, message, hint, retryable):
    model.status, model.answer = status, answer
    with pytest.raises(ToolError) as caught:
        await ask({"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": model.url}, {"image_path": "shot.png"})
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.retryable is retryable
    assert KEY not in str(caught.value)


async def test_a_model_that_is_not_there_is_a_clear_error():
    with pytest.raises(ToolError, match="cannot be reached") as caught:
        await ask({"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, {"image_path": "shot.png"})
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "either image_path or image"),
        ({"image": "x", "image_path": "shot.png"}, "either image_path or image"),
        ({"image": "***"}, "is not base64"),
        ({"image": "data:text/plain,hello"}, "is not base64"),
        ({"image": base64.b64encode(b"GIF").decode()}, "not a PNG, JPEG"),
        ({"image_path": "gone.png"}, "gone.png does not exist"),
    ],
)
async def test_what_is_no_picture_is_refused_before_anything_is_sent(arguments, said):
    with pytest.raises((ToolError, ValidationError), match=said):
        await ask({"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://127.0.0.1:1"}, arguments)


def test_the_key_is_in_no_repr():
    settings = Settings.from_environment({"HOME": "/h", "OPENAI_API_KEY": KEY})
    context = ToolContext(settings, Files(), vision=Vision(api_key=KEY))
    assert KEY not in repr(context)
