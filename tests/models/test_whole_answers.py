"""Servers that cannot stream send their answer in one piece, whatever they are asked."""

from __future__ import annotations

import json
import threading
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.models.conftest import MODELS
from toolyard.config.models import Backend
from toolyard.core.errors import ToolyardError
from toolyard.models.conversation import Conversation
from toolyard.models.factory import open_model
from toolyard.models.messages import TextDelta

ANSWERS = {
    "gemini": {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "Whole."}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 2, "totalTokenCount": 9},
    },
    "openai": {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Whole."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
    },
}


PIECES = {
    "gemini": [ANSWERS["gemini"]],
    "openai": [
        {"id": "c", "created": 1, "model": "m", "choices": [{"index": 0, "delta": {"content": "In pieces."}}]},
        {"id": "c", "created": 1, "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ],
}
GARBAGE = {"this": ["is", "nothing"]}


class Server:
    """One that says to each request what it is told to, and knows of each whether pieces were wanted.

    `says` gives the answer to the n-th request; None is an answer in pieces.
    """

    def __init__(self, kind: str) -> None:
        self.kind, self.says, self.wanted_pieces = kind, lambda _: ANSWERS[kind], []

    def answer(self, path: str, body: bytes) -> tuple[str, bytes]:
        self.wanted_pieces.append("stream" in path or json.loads(body).get("stream") is True)
        said = self.says(len(self.wanted_pieces))
        if said is not None:
            return "application/json; charset=utf-8", json.dumps(said).encode()
        events = [*(json.dumps(piece) for piece in PIECES[self.kind]), *(["[DONE]"] * (self.kind == "openai"))]
        return "text/event-stream", "".join(f"data: {event}\n\n" for event in events).encode()

    @asynccontextmanager
    async def model(self, **options):
        base_url = f"{self.url}/v1" if self.kind == "openai" else self.url
        backend = Backend(type=self.kind, model=MODELS[self.kind], base_url=base_url, api_key="a-key")
        model = open_model(backend, {}, first_pause=0.01, **options)
        try:
            yield model
        finally:
            await model.close()


@pytest.fixture(params=ANSWERS)
def server(request):
    served = Server(request.param)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            kind, answer = served.answer(self.path, self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *words: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        served.url = f"http://127.0.0.1:{running.server_port}"
        yield served
        running.shutdown()
        thread.join()


async def say(model, **options):
    conversation = Conversation()
    conversation.add_question("Say it.")
    return await model.turn(conversation, **options)


async def test_they_are_asked_for_it_so_and_it_is_told_and_counted(server):
    heard = []
    async with server.model(most_tries=2) as model:
        turn = await say(model, on_event=heard.append)
        await say(model)

    assert (turn.text, turn.usage.input, turn.usage.output) == ("Whole.", 7, 2)
    assert heard == [TextDelta("Whole.")]
    assert server.wanted_pieces == [True, False, False], "it is tried once whether they stream"


async def test_asking_for_a_whole_answer_is_one_of_the_tries(server):
    server.says = lambda _: GARBAGE
    async with server.model(most_tries=3) as model:
        with pytest.raises(ToolyardError):
            await say(model)

    assert server.wanted_pieces == [True, False, False]


async def test_who_may_be_asked_once_is_asked_once(server):
    async with server.model(most_tries=1) as model:
        with pytest.raises(ToolyardError, match="does not stream"):
            await say(model)

    assert server.wanted_pieces == [True]


async def test_garbage_is_no_sign_that_they_cannot_stream(server):
    server.says = lambda number: GARBAGE if number <= 2 else None
    async with server.model(most_tries=2) as model:
        with pytest.raises(ToolyardError):
            await say(model)
        turn = await say(model)
        await say(model)

    assert turn.text in ("In pieces.", "Whole.")
    assert server.wanted_pieces == [True, False, True, True]
