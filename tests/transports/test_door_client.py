"""`execute_tool_with_retry`: what is tried again, what is not, and what is said at the end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from toolyard.core.errors import SecurityError, SystemFault, ToolError, ToolyardError, ValidationError
from toolyard.transports.http import Backoff, execute_tool_with_retry

SOON = Backoff(first_seconds=0.001)
TOKEN = "the-token"
RESULT = {"type": "result", "content": [{"type": "text", "text": "done"}], "structured": {"n": 1}}
PROGRESS = {"type": "progress", "done": 1, "total": None, "message": "on it"}
RESET, SILENT_END = "reset", "end"


def answered(status, body, kind="application/json", **headers):
    said = body if isinstance(body, bytes) else json.dumps(body).encode()
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} Status\r\nContent-Type: {kind}\r\nContent-Length: {len(said)}\r\n{more}\r\n"
    return head.encode() + said


def lines(*told, cut=False):
    said = b"".join(json.dumps(line).encode() + b"\n" for line in told)
    return answered(200, said, "application/x-ndjson") if not cut else _cut(said)


def _cut(said):
    """An answer that ends before it is whole."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nContent-Length: 99999\r\n\r\n" + said


def error(kind="tool", *, retryable, **more):
    return {"code": -32603, "kind": kind, "message": "It failed.", "hint": "Do.", "retryable": retryable, **more}


def failed(**more):
    return lines({"type": "error", "error": error(**more)})


def catalogue(*, idempotent):
    return answered(200, {"tools": [{"name": "Tool", "read_only": False, "idempotent": idempotent}]})


class Scripted:
    """A server that answers requests to run a tool with what it was given, one after the other."""

    def __init__(self, *answers, idempotent=False):
        self.answers = list(answers)
        self.idempotent = idempotent
        self.bodies = []
        self.listed = 0

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader, writer):
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            assert f"authorization: bearer {TOKEN}" in head
            if head.startswith("get /tools "):
                self.listed += 1
                writer.write(catalogue(idempotent=self.idempotent))
            else:
                assert head.startswith("post /execute ")
                length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
                self.bodies.append(json.loads(await reader.readexactly(length)))
                answer = self.answers.pop(0)
                if answer == RESET:
                    writer.transport.abort()
                    return
                writer.write(answer if answer != SILENT_END else b"")
            await writer.drain()

    async def call(self, **options):
        options = {"backoff": SOON, **options}
        return await asyncio.wait_for(execute_tool_with_retry(self.url, TOKEN, "Tool", {"a": 1}, **options), 20)


async def test_lines_come_to_the_callback_and_the_result_is_returned():
    heard = []
    async with Scripted(lines(PROGRESS, RESULT)) as server:
        done = await server.call(on_line=heard.append)
    assert (done.text, done.structured, done.attempts) == ("done", {"n": 1}, 1)
    assert heard == [PROGRESS, RESULT]
    assert server.bodies == [{"tool_name": "Tool", "args": {"a": 1}}]


async def test_the_callback_may_be_awaited():
    heard = []

    async def hear(line):
        heard.append(line["type"])

    async with Scripted(lines(PROGRESS, RESULT)) as server:
        await server.call(on_line=hear)
    assert heard == ["progress", "result"]


NOT_RUN = {"error": error("system", retryable=True, ran=False)}


@pytest.mark.parametrize("idempotent", [True, False], ids=["repeatable", "once"])
@pytest.mark.parametrize(
    "first",
    [answered(429, b"slow down"), answered(503, NOT_RUN), answered(503, NOT_RUN, Retry_After="0")],
    ids=["429", "busy", "busy for no time"],
)
async def test_what_certainly_did_not_run_is_called_again(first, idempotent):
    async with Scripted(first, first, lines(RESULT), idempotent=idempotent) as server:
        assert (await server.call()).attempts == 3


AMBIGUOUS = {
    "reset": RESET,
    "closed without a word": SILENT_END,
    "cut before any line": lines(cut=True),
    "no last line": lines(),
    "502": answered(502, b"<html>bad gateway"),
    "503 of a proxy": answered(503, b"upstream reset"),
    "504": answered(504, b""),
    "said to be retryable": failed(retryable=True),
}


@pytest.mark.parametrize("first", AMBIGUOUS.values(), ids=AMBIGUOUS)
async def test_a_tool_that_may_run_twice_is_called_again(first):
    async with Scripted(first, lines(RESULT), idempotent=True) as server:
        assert (await server.call()).attempts == 2
    assert (len(server.bodies), server.listed) == (2, 1)


@pytest.mark.parametrize("first", AMBIGUOUS.values(), ids=AMBIGUOUS)
async def test_a_tool_that_may_not_is_called_once(first):
    async with Scripted(first, lines(RESULT)) as server:
        with pytest.raises((SystemFault, ToolError)) as raised:
            await server.call()
    assert len(server.bodies) == 1
    if first is AMBIGUOUS["said to be retryable"]:
        assert raised.value.message == "It failed."
    else:
        assert raised.value.hint == "It is not known whether the tool ran: check before calling it again."
        assert not raised.value.retryable


async def test_who_knows_the_tool_need_not_ask_the_server():
    async with Scripted(RESET, lines(RESULT)) as server:
        assert (await server.call(repeatable=True)).attempts == 2
    async with Scripted(RESET, lines(RESULT), idempotent=True) as other:
        with pytest.raises(SystemFault):
            await other.call(repeatable=False)
    assert (server.listed, other.listed, len(other.bodies)) == (0, 0, 1)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (lines(PROGRESS, cut=True), SystemFault),
        (failed(retryable=False), ToolError),
        (failed(kind="security", retryable=False), SecurityError),
        (answered(400, {"error": error("validation", retryable=False, ran=False)}), ValidationError),
        (answered(401, {"error": "unauthorized", "hint": "h"}), SecurityError),
        (answered(404, b"not found"), SystemFault),
        (answered(200, b"hello", "text/html"), SystemFault),
        (answered(200, b"no json\n", "application/x-ndjson"), SystemFault),
        (answered(200, b"[]\n", "application/x-ndjson"), SystemFault),
        (answered(302, b"", Location="http://127.0.0.1:1/"), SystemFault),
    ],
    ids=[
        *("cut after a line", "no", "refused", "400", "401", "404", "another page", "nonsense", "no object", "moved"),
    ],
)
async def test_what_is_not_worth_it_is_not_tried_again(answer, kind):
    async with Scripted(answer, lines(RESULT), idempotent=True) as server:
        with pytest.raises(kind):
            await server.call()
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    "line",
    [
        {"type": "error"},
        {"type": "error", "error": {"kind": "validation", "validation_errors": [1]}},
        {"type": "error", "error": {"kind": "validation", "validation_errors": 5}},
        {"type": "result", "content": 5},
        {"type": "result", "content": [1]},
        {"type": "result", "structured": None},
    ],
    ids=repr,
)
async def test_a_server_that_talks_nonsense_is_met_with_an_error_of_ours(line):
    async with Scripted(lines(line)) as server:
        with pytest.raises(ToolyardError):
            await server.call()


async def test_brackets_without_an_end_are_nonsense_too():
    async with Scripted(answered(200, b"[" * 100_000 + b"\n", "application/x-ndjson")) as server:
        with pytest.raises(ToolyardError):
            await server.call()


async def test_the_last_error_is_raised_when_the_attempts_are_used_up():
    busy = answered(503, NOT_RUN)
    async with Scripted(*[busy] * 5) as server:
        with pytest.raises(SystemFault, match=r"It failed\."):
            await server.call(attempts=3)
    assert len(server.bodies) == 3


async def test_a_server_that_is_not_there_yet_is_waited_for():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"  # bound and not listening: refused
        with pytest.raises(SystemFault) as raised:
            await execute_tool_with_retry(url, TOKEN, "Tool", attempts=2, backoff=SOON)
        assert "cannot be reached" in raised.value.message

        async def late():
            await asyncio.sleep(0.05)
            probe.listen()

        calling = asyncio.create_task(execute_tool_with_retry(url, TOKEN, "Tool", attempts=8))
        await late()
        server = Scripted(lines(RESULT))
        async with await asyncio.start_server(server._serve, sock=probe.dup()):
            assert (await asyncio.wait_for(calling, 20)).attempts > 1


async def test_the_server_says_how_long_to_wait(monkeypatch):
    waited = []

    async def sleep(seconds):
        waited.append(seconds)

    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=9), usegmt=True)
    answers = [answered(503, NOT_RUN, Retry_After=after) for after in ("7", soon, "nonsense")]
    async with Scripted(*answers, lines(RESULT)) as server:
        monkeypatch.setattr("toolyard.transports.http.client.asyncio.sleep", sleep)
        await server.call(backoff=Backoff(first_seconds=1))
    assert waited[0] == 7
    assert 5 < waited[1] <= 9
    assert 2 <= waited[2] <= 4  # the third failure: four seconds, less up to half


async def test_who_is_put_off_for_too_long_gives_up():
    async with Scripted(answered(503, NOT_RUN, Retry_After="3600"), lines(RESULT)) as server:
        with pytest.raises(SystemFault, match=r"It failed\."):
            await server.call()
    assert len(server.bodies) == 1


def test_the_wait_doubles_up_to_its_bound_and_no_two_callers_wait_alike():
    backoff = Backoff(first_seconds=1, most_seconds=5)
    for failures, most in enumerate((1, 2, 4, 5, 5), start=1):
        waits = {backoff.seconds(failures) for _ in range(50)}
        assert len(waits) > 1
        assert most / 2 <= min(waits)
        assert max(waits) <= most


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1", "http://", "http://[::"])
async def test_an_address_that_is_none_is_said_to_be(url):
    with pytest.raises(ValidationError, match="url: is not an HTTP address"):
        await execute_tool_with_retry(url, TOKEN, "Tool", backoff=SOON)


@pytest.mark.parametrize("args", [{"a": float("nan")}, {"a": object()}, {"a": b"bytes"}])
async def test_arguments_that_json_cannot_carry_are_said_to_be(args):
    with pytest.raises(ValidationError, match="cannot be sent"):
        await execute_tool_with_retry("http://127.0.0.1:1", TOKEN, "Tool", args)


async def test_a_token_that_no_header_can_carry_is_said_to_be():
    async with Scripted() as server:
        with pytest.raises(ValidationError, match="cannot be sent"):
            await execute_tool_with_retry(server.url, "two\nlines", "Tool")


async def test_no_attempt_at_all_is_refused():
    with pytest.raises(ValidationError, match="attempts"):
        await execute_tool_with_retry("http://127.0.0.1:1", TOKEN, "Tool", attempts=0)


async def test_it_speaks_to_the_real_door_by_either_address(place, wait_until):
    with place.http() as server:
        base = f"http://{server.host}:{server.port}"
        for url in (base, f"{base}/", f"{base}/mcp"):
            done = await execute_tool_with_retry(url, server.token, "Bash", {"command": "echo hi"})
            assert done.structured["stdout"] == "hi\n"
        with pytest.raises(ValidationError) as unknown:
            await execute_tool_with_retry(base, server.token, "Nope")
        assert unknown.value.fields[0].field == "tool_name"
        with pytest.raises(SecurityError):
            await execute_tool_with_retry(base, "wrong", "LS")
        runs = asyncio.Event()
        calling = asyncio.create_task(
            execute_tool_with_retry(base, server.token, "Grep", place.endless(), on_line=lambda _: runs.set())
        )
        await asyncio.wait_for(runs.wait(), 20)
        calling.cancel()
        await asyncio.wait({calling})
        await asyncio.to_thread(wait_until, lambda: place.events()[-1].tool == "Grep")
    assert calling.cancelled()
    assert (place.events()[-1].tool, place.events()[-1].outcome) == ("Grep", "cancelled")
