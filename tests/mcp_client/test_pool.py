"""The pool with servers that behave."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from toolyard.core.eager_call import EagerCall
from toolyard.core.upstream import UpstreamResult
from toolyard.mcp_client import CallFailed, CallRefused, ServerUnavailable, UnknownServer
from toolyard.mcp_client.managed_server import ManagedServer

from .upstreams import is_alive, until, upstream

ERAS = {"both": "2025-11-25", "handshake": "2025-11-25", "old": "2024-11-05", "modern": "2026-07-28"}


def text(said: str) -> UpstreamResult:
    return UpstreamResult(({"type": "text", "text": said},))


@pytest.mark.parametrize("era", ERAS)
def test_a_server_of_either_era_is_greeted_listed_and_called(open_pool, era):
    pool = open_pool(upstream("up", "--era", era))
    assert pool.loop.run(pool.call("up", "echo", {"text": "héllo\n\ud800"})) == text("héllo\n\ud800")
    listing = pool.loop.run(pool.server_listing("up"))
    assert (listing.server, listing.version, listing.protocol) == ("up", "1.2.3", ERAS[era])
    assert listing.instructions == "Echo and be merry."
    tools = {tool.name: tool for tool in listing.tools}
    assert tools["echo"].is_read_only
    assert tools["add"].output_schema == {
        "type": "object",
        "properties": {"sum": {"type": "number"}},
        "required": ["sum"],
    }


def test_structured_results_and_errors_of_tools_come_as_they_are(open_pool):
    pool = open_pool(upstream())
    added = pool.loop.run(pool.call("up", "add", {"a": 10**30, "b": 1}))
    assert added.structured == {"sum": 10**30 + 1}
    failed = pool.loop.run(pool.call("up", "fail", {"text": "no such city"}))
    assert (failed.is_error, failed.text) == (True, "no such city")


def test_attaching_a_hundred_servers_starts_none(open_pool):
    before = set(threading.enumerate())
    pool = open_pool(*(upstream(f"up{n}") for n in range(100)))
    statuses = pool.status()
    assert len(statuses) == 100
    assert {(status.state, status.pid, status.starts) for status in statuses.values()} == {("idle", None, 0)}
    assert len(set(threading.enumerate()) - before) == 1
    assert pool.loop.run(pool.call("up57", "echo", {"text": "hi"})) == text("hi")
    assert [name for name, status in pool.status().items() if status.pid] == ["up57"]


def test_concurrent_first_calls_share_one_start(open_pool):
    pool = open_pool(upstream())

    async def first_calls():
        return await asyncio.gather(*(pool.call("up", "echo", {"text": str(n)}) for n in range(50)))

    assert pool.loop.run(first_calls()) == [text(str(n)) for n in range(50)]
    assert pool.status()["up"].starts == 1
    assert pool.status()["up"].calls == 50


def test_a_thousand_calls_at_once_each_get_their_own_answer(open_pool):
    pool = open_pool(upstream("one"), upstream("two", "--era", "modern"))

    async def many():
        calls = [pool.call(("one", "two")[n % 2], "add", {"a": n, "b": 0.5}) for n in range(1_000)]
        return [answer.structured["sum"] for answer in await asyncio.gather(*calls)]

    assert pool.loop.run(many()) == [n + 0.5 for n in range(1_000)]


def test_quick_calls_are_answered_while_a_slow_one_runs(open_pool):
    pool = open_pool(upstream())

    async def both():
        slow = asyncio.ensure_future(pool.call("up", "wait", {"seconds": 30}))
        quick = [await pool.call("up", "echo", {"text": str(n)}) for n in range(20)]
        assert not slow.done()
        slow.cancel()
        return quick

    assert pool.loop.run(both()) == [text(str(n)) for n in range(20)]


@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_progress_reaches_the_caller_that_asked_for_it(open_pool, era):
    pool = open_pool(upstream("up", "--era", era))
    told: dict[str, list[tuple[float, float | None, str]]] = {"a": [], "b": []}

    async def two():
        def hear(who):
            return lambda done, total, message: told[who].append((done, total, message))

        calls = [pool.call("up", "wait", {"seconds": 0.1}, progress=hear(who)) for who in told]
        return await asyncio.gather(*calls, pool.call("up", "wait", {"seconds": 0.1}))

    assert pool.loop.run(two()) == [text("waited")] * 3
    steps = [(n, 4, f"step {n}") for n in (1, 2, 3, 4)]
    assert told == {"a": steps, "b": steps}


def test_a_fault_of_who_hears_the_progress_is_not_one_of_the_connection(open_pool):
    pool = open_pool(upstream())
    faults = []
    pool.loop.loop.set_exception_handler(lambda _loop, context: faults.append(context["exception"]))

    async def many():  # so many that their messages come in bunches
        calls = [pool.call("up", "wait", {"seconds": 0}, 10, lambda *_: 1 / 0) for _ in range(100)]
        return await asyncio.gather(*calls)

    assert pool.loop.run(many()) == [text("waited")] * 100
    assert {type(fault) for fault in faults} == {ZeroDivisionError}


def test_no_answer_overtakes_the_progress_that_was_told_before_it(open_pool):
    pool = open_pool(upstream())
    heard, ended = [], []

    async def one():
        told = []
        await pool.call("up", "wait", {"seconds": 0}, 10, lambda done, *_: told.append(done))
        heard.append(told.copy())

    async def many():  # so many that a call's progress and its answer come in one bunch
        await pool.call("up", "wait", {"seconds": 0})
        for _ in range(100):
            EagerCall(one(), asyncio.get_running_loop(), ended.append).start()
        while len(ended) < 100:
            await asyncio.sleep(0.01)

    pool.loop.run(many())
    assert ended == [None] * 100
    assert heard == [[1, 2, 3, 4]] * 100


def test_a_cancelled_caller_cancels_the_call_at_the_server(open_pool):
    pool = open_pool(upstream())

    async def give_up():
        heard = asyncio.Event()
        call = asyncio.ensure_future(pool.call("up", "wait", {"seconds": 30}, progress=lambda *_: heard.set()))
        await heard.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return await pool.call("up", "cancelled", {})

    assert pool.loop.run(give_up()) == text("1")
    assert pool.status()["up"].in_flight == 0


def test_giving_up_in_another_thread_cancels_the_call_at_the_server(open_pool):
    pool = open_pool(upstream())
    pool.loop.run(pool.call("up", "echo", {"text": ""}))
    with pytest.raises(TimeoutError):
        pool.loop.run(pool.call("up", "wait", {"seconds": 30}), timeout=0.2)
    until(lambda: pool.loop.run(pool.call("up", "cancelled", {})) == text("1"))


def test_big_arguments_and_answers_pass_whole(open_pool):
    pool = open_pool(upstream())
    long = "é" * 5_000_000

    async def several():
        return await asyncio.gather(*(pool.call("up", "echo", {"text": f"{n}{long}"}) for n in range(3)))

    assert [answer.text == f"{n}{long}" for n, answer in enumerate(pool.loop.run(several()))] == [True] * 3
    assert len(pool.loop.run(pool.call("up", "blob", {"size": 20_000_000})).text) == 20_000_000


def test_refusals_of_the_protocol_are_told_apart(open_pool):
    pool = open_pool(upstream())
    with pytest.raises(CallRefused, match="Unknown tool: nothing") as unknown:
        pool.loop.run(pool.call("up", "nothing", {}))
    assert (unknown.value.server, unknown.value.tool) == ("up", "nothing")
    with pytest.raises(CallRefused, match="'text' is missing"):
        pool.loop.run(pool.call("up", "echo", {}))
    with pytest.raises(CallFailed, match="refused with -32000"):
        pool.loop.run(pool.call("up", "refuse", {"code": -32000}))
    with pytest.raises(CallRefused, match="cannot be written as JSON"):
        pool.loop.run(pool.call("up", "echo", {"text": object()}))
    with pytest.raises(UnknownServer, match=r"no server 'nowhere'\. Attached servers: up\."):
        pool.loop.run(pool.call("nowhere", "echo", {}))


def test_a_server_is_not_idle_while_its_first_callers_wait_for_it(open_pool, monkeypatch):
    watch = ManagedServer._schedule_idle_check

    def on_a_busy_machine(self, seconds):
        watch(self, seconds)
        monkeypatch.undo()
        time.sleep(2 * seconds)  # nobody's turn: the server is up, and its callers have not heard of it yet

    monkeypatch.setattr(ManagedServer, "_schedule_idle_check", on_a_busy_machine)
    pool = open_pool(upstream(), idle_seconds=0.1)

    async def several():
        calls = [
            pool.call("up", "wait", {"seconds": 0}),
            pool.server_listing("up"),
            pool.call("up", "wait", {"seconds": 0}),
        ]
        first, listing, second = await asyncio.gather(*calls)
        return first, len(listing.tools) > 0, second

    assert pool.loop.run(several()) == (text("waited"), True, text("waited"))
    assert pool.status()["up"].starts == 1


def test_an_idle_server_is_closed_and_started_again_when_it_is_called(open_pool):
    pool = open_pool(upstream(), idle_seconds=0.2)
    during = []
    # Not while it is being used: its last word comes when more than that has passed.
    pool.loop.run(pool.call("up", "wait", {"seconds": 0.6}, None, lambda *_: during.append(pool.status()["up"].pid)))
    first = during[-1]
    assert first
    until(lambda: pool.status()["up"].state == "idle" and not is_alive(first))
    assert pool.loop.run(pool.call("up", "echo", {"text": "again"})) == text("again")
    assert pool.status()["up"].starts == 2


def test_a_server_sees_the_documented_variables_and_its_own(open_pool):
    passed = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/home/x",
        **dict.fromkeys(("LANG", "LC_TIME", "TZ"), "C"),
        **dict.fromkeys(("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"), "/etc/ca"),
        **dict.fromkeys(("HTTP_PROXY", "https_proxy", "ALL_PROXY"), "http://proxy.example:3128"),
        **dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost"),
    }
    others = {"AWS_SECRET_ACCESS_KEY": "k", "TERM": "() {", "SSL_KEY_PASSWORD": "k", "PYTHONPATH": "/evil"}
    pool = open_pool(upstream("up", env={"API_KEY": "from-the-entry"}), host_env={**passed, **others})
    seen = set(pool.loop.run(pool.call("up", "env", {})).text.split())
    # What the interpreter and the shell before it add themselves.
    assert seen - {"PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"} == {*passed, "API_KEY"}


def test_calls_are_refused_after_the_pool_is_closed_and_those_in_flight_fail(open_pool):
    pool = open_pool(upstream())
    pool.loop.run(pool.call("up", "echo", {"text": ""}))
    call = pool.loop.submit(pool.call("up", "wait", {"seconds": 60}))
    until(lambda: pool.status()["up"].in_flight == 1)
    pool.loop.run(pool.aclose())
    with pytest.raises(ServerUnavailable):
        call.result(5)
    with pytest.raises(ServerUnavailable, match="is closed"):
        pool.loop.run(pool.call("up", "echo", {"text": ""}))
    assert pool.status()["up"].state == "closed"


def test_closing_while_a_server_starts_ends_it_and_tells_who_waits(open_pool):
    pool = open_pool(upstream("up", "--fault", "mute"))
    call = pool.loop.submit(pool.call("up", "echo", {"text": ""}))
    until(lambda: pool.status()["up"].state == "starting")
    pool.loop.run(pool.aclose())
    with pytest.raises(ServerUnavailable, match="is closed"):
        call.result(5)
