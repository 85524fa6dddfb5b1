"""The scripted model as an HTTP server: what no SDK does on purpose, many at once, and the end of it."""

from __future__ import annotations

import asyncio
import json
import socket
import time

import httpx2
import pytest

from tests.testing.plain import BODIES, PATHS, sent
from toolyard.testing.mock_model import DONE, Call, Fail, Hang, Say, Think, Turn, by_model, serve_model

MANY = 300
SOON_SECONDS = 1.0
PICTURE = "aGVsbG8="


@pytest.fixture
def talk():
    """A connection to talk on by hand: `talk(server)`."""
    opened: list[socket.socket] = []

    def connect(server) -> socket.socket:
        opened.append(socket.create_connection(("127.0.0.1", server.port), timeout=10))
        return opened[-1]

    yield connect
    for each in opened:
        each.close()


def read_until(connection: socket.socket, end: bytes) -> bytes:
    found = b""
    while end not in found:
        piece = connection.recv(65536)
        assert piece, found
        found += piece
    return found


def test_pieces_go_out_as_they_are_made():
    with (
        serve_model(Turn("one two three", delay=0.05)) as server,
        httpx2.stream(**sent(server.url, "chat", stream=True)) as answer,
    ):
        arrived = [time.monotonic() for _ in answer.iter_raw()]
    assert arrived[-1] - arrived[0] > 0.15


def test_one_connection_carries_many_requests(talk):
    body = json.dumps(BODIES["chat"]).encode()
    head = f"POST {PATHS['chat']} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    with serve_model(Say("hello")) as server:
        connection = talk(server)
        for _ in range(3):
            connection.sendall(head + body)
            assert b"hello" in read_until(connection, b"}}}")
    assert len(server.requests) == 3


def test_a_body_may_come_in_chunks_and_late(talk):
    body = json.dumps(BODIES["chat"]).encode()
    chunks = b"".join(b"%x;x=1\r\n%b\r\n" % (len(part), part) for part in (body[:10], body[10:])) + b"0\r\n\r\n"
    head = f"POST {PATHS['chat']} HTTP/1.1\r\ntransfer-encoding: chunked\r\nexpect: 100-continue\r\n\r\n".encode()
    with serve_model(Say("hello")) as server:
        connection = talk(server)
        connection.sendall(head)
        assert read_until(connection, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(chunks[:15])
        connection.sendall(chunks[15:])
        assert b"hello" in read_until(connection, b"}}}")
    assert server.requests[0].body == BODIES["chat"]


def test_hundreds_ask_at_once_and_the_end_takes_no_time():
    async def all_at_once(server):
        limits = httpx2.Limits(max_connections=MANY)
        async with httpx2.AsyncClient(limits=limits, timeout=30, verify=False) as client:
            asked = [client.request(**sent(server.url, "chat", stream=True)) for _ in range(MANY)]
            answers = await asyncio.gather(*asked)
        return {answer.status_code for answer in answers}

    with serve_model(Say("hello")) as server:
        assert asyncio.run(all_at_once(server)) == {200}
        assert len(server.requests) == MANY
        closing = time.monotonic()
    assert time.monotonic() - closing < SOON_SECONDS


def test_scripts_may_wait_for_each_other():
    with serve_model(DONE) as server:

        def first(request):
            server.wait_for(lambda server: len(server.requests) == 2)
            return Say("after you")

        server.script = by_model({"a": first, "b": Say("thank you")})
        asked = sent(server.url, "chat")

        async def both():
            async with httpx2.AsyncClient(verify=False) as client:
                asking = [client.request(**{**asked, "json": {**asked["json"], "model": name}}) for name in "ab"]
                return [answer.json()["choices"][0]["message"]["content"] for answer in await asyncio.gather(*asking)]

        assert asyncio.run(both()) == ["after you", "thank you"]


def test_what_is_no_request_of_an_api_is_not_found_and_kept():
    with serve_model(DONE) as server:
        found = [httpx2.get(f"{server.url}/v1/models"), httpx2.post(f"{server.url}/v1/messages", content=b"{]")]
        looked = httpx2.head(server.url)
    assert [answer.status_code for answer in found] == [404, 404]
    assert looked.status_code == 200
    assert [request.path for request in server.all_requests] == ["/v1/models", "/v1/messages", "/"]
    assert server.requests == []


def test_tokens_are_counted_for_who_asks():
    with serve_model(DONE) as server:
        gemini = httpx2.post(f"{server.url}/v1beta/models/m:countTokens", json=BODIES["gemini"]).json()
        anthropic = httpx2.post(f"{server.url}/v1/messages/count_tokens", json=BODIES["anthropic"]).json()
    assert gemini["totalTokens"] > 0
    assert anthropic["input_tokens"] > 0
    assert server.requests == []
    with serve_model(DONE, token_count=7) as server:
        told = httpx2.post(f"{server.url}/v1/messages/count_tokens", json=BODIES["anthropic"]).json()
    assert told == {"input_tokens": 7}


def test_a_stream_of_gemini_without_events_is_an_array():
    with serve_model(Say("one two")) as server:
        answer = httpx2.post(f"{server.url}/v1beta/models/m:streamGenerateContent", json=BODIES["gemini"]).json()
    assert [chunk["candidates"][0]["content"]["parts"][0]["text"] for chunk in answer] == ["one ", "two"]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize(("api", "where"), [("gemini", '"functionCall":'), ("anthropic", '"signature":"Y')])
def test_thoughts_are_signed_where_the_provider_signs_them(api, where, stream):
    with serve_model(Think("Hm.", Turn("I read.", calls=(Call("Read"), Call("List"))))) as server:
        text = httpx2.request(**sent(server.url, api, stream=stream)).text
    signed = [line for line in text.replace("},{", "\n").splitlines() if 'ignature":"Y' in line]
    assert len(signed) == 1
    assert where in signed[0]


def test_a_tool_in_a_namespace_is_called_by_its_whole_name():
    inner = {"type": "function", "name": "Read", "description": "Reads.", "parameters": {}}
    body = {**BODIES["responses"], "tools": [{"type": "namespace", "name": "mcp__yard", "tools": [inner]}]}
    with serve_model(Call("mcp__yard__Read")) as server:
        answer = httpx2.post(server.url + PATHS["responses"], json=body).json()
    assert server.requests[0].tools == ("mcp__yard__Read",)
    assert (answer["output"][0]["namespace"], answer["output"][0]["name"]) == ("mcp__yard", "Read")


@pytest.mark.parametrize(
    ("api", "part"),
    [
        ("gemini", {"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": PICTURE}}]}]}),
        ("chat", {"image_url": {"url": f"data:image/png;base64,{PICTURE}"}}),
        ("responses", {"image_url": f"data:image/png;base64,{PICTURE}"}),
        ("anthropic", {"source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}),
    ],
)
def test_pictures_are_seen_in_every_spelling(api, part):
    with serve_model(DONE) as server:
        httpx2.post(server.url + PATHS[api], json={**BODIES[api], "more": [part]})
    assert server.requests[0].images == (("image/png", PICTURE),)


def test_who_waits_too_long_for_something_is_told():
    with serve_model(DONE) as server, pytest.raises(TimeoutError, match="received 0 requests"):
        server.wait_for(lambda server: bool(server.requests), seconds=0.01)


def test_a_port_that_is_taken_is_an_error():
    with serve_model(DONE) as server, pytest.raises(OSError, match="in use"), serve_model(DONE, port=server.port):
        pass


def test_a_hanging_client_that_goes_is_forgotten():
    with serve_model(Hang()) as server:
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.request(**sent(server.url, "chat"), timeout=0.2)
        server.wait_for(lambda server: server.hanging_requests == 0)
    assert server.steps == [Hang()]


def test_an_unknown_status_is_sent_all_the_same():
    with serve_model(Fail(529)) as server:
        answer = httpx2.request(**sent(server.url, "anthropic"))
    assert (answer.status_code, answer.json()["error"]["type"]) == (529, "overloaded_error")


def test_its_variables_lead_every_client_to_it():
    with serve_model(DONE, key="k") as server:
        variables = server.environment
    assert variables["OPENAI_BASE_URL"] == f"{variables['GOOGLE_GEMINI_BASE_URL']}/v1"
    assert {variables[f"{name}_API_KEY"] for name in ("GEMINI", "OPENAI", "ANTHROPIC")} == {"k"}
