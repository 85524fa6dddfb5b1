"""What a remote server answers costs its own callers a clear error, and the host a bounded amount of anything."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import zlib

import pytest
from mcp.shared.auth import OAuthToken

from toolyard.config.models import ServerEntry
from toolyard.core.limits import MIB
from toolyard.mcp_client import CallFailed, ServerMisbehaved, ServerUnavailable, response_limits
from toolyard.mcp_client.oauth import SignIn, is_allowed_target
from toolyard.mcp_client.response_limits import LimitedBody, LimitedEventStream, ResponseLimits
from toolyard.mcp_client.results import SecretMask
from toolyard.mcp_client.token_store import TokenFile

from .hostile_http import hostile_server

JSON, EVENTS = "application/json", "text/event-stream"
MANY = b"[" + b",".join([b"{}"] * 600_000) + b"]"


def call(pool, tool="bad"):
    return pool.loop.run(pool.call("far", tool, {}), 50)


def open_far(open_pool, hostile, headers=None, **options):
    return open_pool(ServerEntry(name="far", url=hostile.url, headers=headers or {}), **options)


def answer(number: int, structured: bytes = b"{}", text: str = "") -> bytes:
    content = json.dumps([{"type": "text", "text": text}]).encode()
    result = b'{"content":%b,"structuredContent":{"a":%b}}' % (content, structured)
    return b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (number, result)


def endless(number: int):
    yield b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % number
    while True:
        yield b"x" * MIB


def endless_event(number: int):
    yield b"event: message\ndata: "
    yield from endless(number)


def flood(number: int):
    note = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n\n'
    while True:
        yield note * 100


BAD = {
    "flood": (lambda n: (EVENTS, flood(n)), "has more than 500 messages a second"),
    "endless": (lambda n: (JSON, endless(n)), "is longer than 64 MiB"),
    "endless event": (lambda n: (EVENTS, endless_event(n)), "is longer than 64 MiB"),
    "many values": (lambda n: (JSON, [answer(n, MANY)]), "has more than 1,000,000 values"),
    "an event of many values": (lambda n: (EVENTS, [b"data: %b\n\n" % answer(n, MANY)]), "has more than"),
    "many values on many lines": (
        lambda n: (EVENTS, [b"data: %b\r\n\r\n" % answer(n, MANY).replace(b",", b",\r\ndata: ")]),
        "has more than",
    ),
    "many values in another alphabet": (
        lambda n: (f"{EVENTS}; charset=utf-16", [b"data: %b\n\n" % answer(n, MANY)]),
        "has more than",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_an_answer_out_of_bounds_fails_its_own_call_alone(open_pool, kind):
    bad, says = BAD[kind]
    with hostile_server(bad) as hostile:
        pool = open_far(open_pool, hostile)
        with pytest.raises(ServerMisbehaved, match=f"sent an answer that {says}"):
            call(pool)
        assert call(pool, "good").text == "fine"
        assert pool.status()["far"].starts == 1
        pool.close()


def test_a_compressed_answer_is_not_unpacked(open_pool):
    packed = zlib.compressobj(9, wbits=31)
    bomb = packed.compress(b" " * 50 * MIB) + packed.flush()
    with hostile_server(lambda _: (JSON, [bomb])) as hostile:
        hostile.headers["content-encoding"] = "gzip"
        pool = open_far(open_pool, hostile)
        with pytest.raises(ServerMisbehaved, match="is compressed, although uncompressed data was requested"):
            call(pool)
        assert {headers["accept-encoding"] for _, _, headers in hostile.seen} == {"identity"}
        pool.close()


def test_a_long_answer_in_an_event_is_an_answer(open_pool):
    text = "x" * 3 * MIB
    with hostile_server(lambda n: (EVENTS, [b"event: message\ndata: %b\n\n" % answer(n, text=text)])) as hostile:
        pool = open_far(open_pool, hostile)
        assert call(pool).text == text
        pool.close()


def test_a_listing_is_bounded_in_bytes(open_pool, monkeypatch):
    pages = iter(range(1_000_000))

    def page(number: int):
        n = next(pages)
        tool = {"name": f"t{n}", "description": "x" * MIB, "inputSchema": {"type": "object"}}
        result = {"tools": [tool], "nextCursor": str(n)}
        return JSON, [json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()]

    monkeypatch.setattr("toolyard.mcp_client.results.MAX_LISTING_BYTES", 5 * MIB)
    with hostile_server(lambda n: (JSON, [answer(n)]), tools=page) as hostile:
        pool = open_far(open_pool, hostile)
        with pytest.raises(ServerMisbehaved, match="lists more than"):
            pool.loop.run(pool.server_listing("far"), 50)
        pool.close()


def test_a_redirect_elsewhere_is_not_followed_and_takes_no_credential_along(open_pool):
    with hostile_server(lambda n: (JSON, [answer(n)])) as other, hostile_server(lambda _: (JSON, [])) as hostile:
        pool = open_far(open_pool, hostile, headers={"Authorization": "Bearer of-the-first"})
        hostile.headers["location"] = other.url
        hostile.status = 307
        with pytest.raises((CallFailed, ServerUnavailable)):
            call(pool)
        assert other.seen == []
        pool.close()


def test_the_sdk_is_imported_aside_from_the_loop():
    """A fresh process: here it is imported already."""
    script = """
import sys, threading
from toolyard.config.models import ServerEntry
from toolyard.mcp_client import ServerPool

class Look:
    def find_spec(self, name, path=None, target=None):
        if name in ("mcp.client.client", "mcp.client.streamable_http", "httpx2"):
            print(threading.current_thread().name.split("-")[0])

sys.meta_path.insert(0, Look())
with ServerPool([ServerEntry(name="far", url="http://127.0.0.1:9/mcp")]) as pool:
    try:
        pool.loop.run(pool.call("far", "t", {}))
    except Exception as error:
        print(type(error).__name__)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=55, check=True)
    *threads, outcome = run.stdout.split()
    assert outcome == "ServerUnavailable"
    assert set(threads) == {"asyncio_0"}  # of the pool that `to_thread` has


@pytest.mark.parametrize(
    ("server", "url", "may"),
    [
        ("https://tools.example/mcp", "https://tools.example:8443/token", True),
        ("https://tools.example/mcp", "https://login.example/token", True),
        ("http://tools.example/mcp", "http://tools.example/token", True),
        ("https://tools.example/mcp", "http://tools.example/token", False),
        ("https://tools.example/mcp", "http://login.example/token", False),
        ("https://tools.example/mcp", "https://127.0.0.1/token", False),
        ("https://tools.example/mcp", "https://localhost./token", False),
        ("https://tools.example/mcp", "https://127.1/token", False),
        ("https://tools.example/mcp", "https://2130706433/token", False),
        ("https://tools.example/mcp", "https://[::1]/token", False),
        ("https://tools.example/mcp", "https://[::ffff:10.0.0.1]/token", False),
        ("https://tools.example/mcp", "https://169.254.169.254/latest", False),
        ("https://tools.example/mcp", "file:///etc/passwd", False),
        ("http://127.0.0.1:1/mcp", "http://localhost:2/token", True),
        ("http://127.0.0.1:1/mcp", "http://10.0.0.1/token", False),
    ],
)
def test_where_a_server_may_send_those_who_sign_in(server, url, may):
    assert is_allowed_target(server, url) is may


def test_metadata_that_leads_into_the_users_network_is_not_asked_for(open_pool, tmp_path):
    shown = []
    with hostile_server(lambda n: (JSON, [answer(n)])) as hostile:
        hostile.challenge = 'Bearer resource_metadata="http://10.255.255.1/metadata"'
        pool = open_far(
            open_pool, hostile, tokens_folder=str(tmp_path), on_authorize=lambda *told: shown.append(told)
        )
        with pytest.raises(ServerUnavailable, match=r"it sends us to 10\.255\.255\.1, which is neither its own"):
            call(pool)
        pool.close()
    assert shown == []


def test_a_public_name_that_leads_into_the_users_network_is_not_asked(open_pool, tmp_path, monkeypatch):
    really = socket.getaddrinfo

    def looked_up(host, port, *more, **options):
        return really("10.255.255.1" if host == "login.example" else host, port, *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    with hostile_server(lambda n: (JSON, [answer(n)])) as hostile:
        hostile.challenge = 'Bearer resource_metadata="https://login.example/metadata"'
        pool = open_far(open_pool, hostile, tokens_folder=str(tmp_path), on_authorize=lambda *_: None)
        with pytest.raises(ServerUnavailable, match=r"it sends us to login\.example, which is neither its own"):
            pool.loop.run(pool.call("far", "t", {}))


async def test_nobody_is_shown_a_sign_in_at_a_name_that_leads_into_their_network(tmp_path, monkeypatch):
    def looked_up(_host, port, *_more, **_options):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    shown = []
    entry = ServerEntry(name="far", url="https://tools.example/mcp")
    sign_in = SignIn(entry, str(tmp_path), lambda *told: shown.append(told), SecretMask())
    with pytest.raises(ServerUnavailable, match=r"it sends us to login\.example, which is neither its own"):
        await sign_in.start_sign_in("https://login.example/authorize?state=1")
    assert shown == []


def test_a_token_that_the_server_repeats_is_not_said(open_pool, tmp_path):
    def repeat(number: int):
        headers = next(headers for _, _, headers in reversed(hostile.seen) if "authorization" in headers)
        error = {"code": -32000, "message": f"no good: {headers['authorization']}"}
        return JSON, [json.dumps({"jsonrpc": "2.0", "id": number, "error": error}).encode()]

    with hostile_server(repeat) as hostile:
        kept = TokenFile(str(tmp_path), "far", hostile.url, SecretMask())
        asyncio.run(kept.set_tokens(OAuthToken(access_token="a-token-of-the-users", token_type="Bearer")))
        pool = open_far(open_pool, hostile, tokens_folder=str(tmp_path))
        with pytest.raises(CallFailed, match=r"no good: Bearer \*\*\*"):
            call(pool)
        pool.close()


class Pieces(response_limits.httpx2.AsyncByteStream):
    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces
        self.is_closed = False

    async def __aiter__(self):
        for piece in self.pieces:
            yield piece

    async def aclose(self) -> None:
        self.is_closed = True


def through(kind, bounds: ResponseLimits, *pieces: bytes, asked: int | None = None) -> list[bytes]:
    async def read() -> list[bytes]:
        body = kind(Pieces(*pieces), bounds, asked, is_plain=True)
        got = [piece async for piece in body if piece]
        await body.aclose()
        return got

    return asyncio.run(read())


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_events_go_on_when_they_are_whole_whatever_ends_their_lines(end):
    bounds = ResponseLimits()
    text = b"event: message" + end + b"data: 1" + end + end + b": a comment" + end + end + b"data: 2"
    bytewise = [text[at : at + 1] for at in range(len(text))]
    expected = [b"event: message\ndata: 1\n\n", b": a comment\n\n", b"data: 2"]
    assert through(LimitedEventStream, bounds, *bytewise) == expected
    assert b"".join(through(LimitedEventStream, bounds, text)) == b"".join(expected)
    assert bounds.held_bytes == 0
    assert bounds.received_bytes == 2 * len(text)


def test_a_server_does_not_say_how_soon_it_is_asked_again():
    assert through(LimitedEventStream, ResponseLimits(), b"id: 7\nretry: 0\ndata: 1\n\n") == [b"id: 7\ndata: 1\n\n"]


def test_a_long_event_is_skipped_to_its_end_and_the_next_one_is_heard():
    long = b'data: {"jsonrpc":"2.0","id":3,"result":"' + b"x" * 100
    got = through(LimitedEventStream, ResponseLimits(max_bytes=50), long, b"y" * 100, b'"}\n', b"\ndata: 2\n\n")
    assert [json.loads(got[0].partition(b"data: ")[2])["id"], got[1:]] == [3, [b"data: 2\n\n"]]


def test_what_all_answers_hold_together_is_bounded(monkeypatch):
    monkeypatch.setattr(response_limits, "_MAX_HELD_BYTES", 100)
    bounds = ResponseLimits()
    bounds.held_bytes = 90
    (refusal,) = through(LimitedBody, bounds, b"x" * 20, asked=5)
    assert json.loads(refusal)["id"] == 5
    assert bounds.held_bytes == 90
    assert through(LimitedBody, bounds, b"x" * 5) == [b"x" * 5]


def test_a_page_in_the_place_of_an_answer_is_named(open_pool):
    """What a proxy or a sign-in page answers, where the address is wrong."""
    with hostile_server(lambda n: (JSON, [])) as hostile:
        hostile.page = b"<html>Sign in</html>"
        pool = open_far(open_pool, hostile)
        for _ in range(2):  # the second time, of what is remembered
            with pytest.raises(ServerUnavailable) as raised:
                pool.loop.run(pool.server_listing("far"), 50)
            assert "answers with text/html, which is not MCP" in str(raised.value)
            assert str(raised.value).count("'far'") == 1
