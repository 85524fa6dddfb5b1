"""Servers that cannot stream send their answer in one piece, whatever they are asked."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.models.conftest import MODELS

from toolyard.config.models import Backend
from toolyard.models.chat import Said
from toolyard.models.conversation import Conversation
from toolyard.models.opening import open_model

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


@pytest.fixture(params=ANSWERS)
def server(request):
    """One that answers each request alike, and keeps its path."""
    answer, paths = json.dumps(ANSWERS[request.param]).encode(), []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            paths.append(self.path)
            self.send_response(200)
            self.send_header("content-type", "application/json; charset=utf-8")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *words: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield request.param, f"http://127.0.0.1:{running.server_port}", paths
        running.shutdown()
        thread.join()


async def test_they_are_asked_for_it_so_and_it_is_told_and_counted(server):
    kind, url, paths = server
    base_url = f"{url}/v1" if kind == "openai" else url
    model = open_model(Backend(type=kind, model=MODELS[kind], base_url=base_url, api_key="a-key"), {}, most_tries=1)
    heard, conversation = [], Conversation()
    try:
        conversation.ask("Say it.")
        turn = await model.turn(conversation, hear=heard.append)
        conversation.ask("Again.")
        await model.turn(conversation)
    finally:
        await model.close()

    assert (turn.text, turn.spent.input, turn.spent.output) == ("Whole.", 7, 2)
    assert heard == [Said("Whole.")]
    assert len(paths) == 3, "it is tried once whether they stream"
