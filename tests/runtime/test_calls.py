"""Calls of agent code to a real broker: what they send, what comes back, what they raise."""

import asyncio
import os
import signal
import threading
import time

import pytest

from toolyard.core.limits import MIB
from toolyard_runtime import broker as runtime_broker
from toolyard_runtime import (
    call_custom_tool,
    call_custom_tool_sync,
    call_mcp_tool,
    call_mcp_tool_sync,
    save_skill,
    semantic_search,
)
from toolyard_runtime.errors import InvalidArguments, ServerUnavailable, ToolError, ToolTimeout

from .calling import DEADLINE


def test_a_call_brings_back_text_content_and_structure(broker, handler):
    result = call_mcp_tool_sync("s", "t", {"n": 1})
    assert (result.text, result.structured, result["n"]) == ("a:s:t", {"n": 1}, 1)
    (request,) = handler.requests
    assert (request.server, request.tool, request.arguments, request.timeout) == ("s", "t", {"n": 1}, None)


async def test_an_awaited_call_does_the_same(broker):
    result = await call_mcp_tool("s", "t", {"n": 1})
    assert (result.text, result.structured) == ("a:s:t", {"n": 1})


async def test_a_call_looks_for_its_answer_for_a_moment_and_sleeps_when_it_takes_longer(broker, monkeypatch):
    looks: set[int] = set()  # the broker's loop in the other thread looks, too
    monkeypatch.setattr(os, "sched_yield", lambda: looks.add(threading.get_ident()))
    before = time.thread_time()
    with pytest.raises(ToolTimeout):
        await call_mcp_tool("s", "hold", timeout=0.5)
    assert threading.get_ident() in looks
    assert time.thread_time() - before < 0.2


async def test_a_blocking_call_may_be_made_where_a_loop_runs(broker):
    assert call_mcp_tool_sync("s", "t").text == "a:s:t"


def test_custom_tools_take_their_arguments_by_name(broker, handler):
    call_custom_tool_sync("web.screenshot", url="u", tool_name="x")
    call_custom_tool_sync(tool_name="web.screenshot", url="u")
    asyncio.run(call_custom_tool("web.screenshot", server="s"))
    assert [(one.do, one.tool, one.arguments) for one in handler.requests] == [
        ("custom", "web.screenshot", {"url": "u", "tool_name": "x"}),
        ("custom", "web.screenshot", {"url": "u"}),
        ("custom", "web.screenshot", {"server": "s"}),
    ]
    with pytest.raises(TypeError, match="by name"):
        call_custom_tool_sync("web.screenshot", "u")
    with pytest.raises(TypeError, match="missing"):
        call_custom_tool_sync(url="u")


def test_search_brings_back_what_it_takes_to_call(broker, handler):
    found = semantic_search("a page", search_paths=["servers/"], top_k=2)
    assert [(one.path, one.relevance_score, one.server, one.tool, one.summary, one.signature) for one in found] == [
        ("servers/a/b.py", 0.5, "a", "b", "s", "b()")
    ] * 2
    assert handler.requests[0].arguments == {"query": "a page", "search_paths": ["servers/"], "top_k": 2}


def test_a_skill_is_handed_over(broker, handler):
    assert save_skill("make_site", "x = 1", "Makes a site") == "skills/a/make_site"
    assert handler.requests[0].arguments == {"name": "make_site", "code": "x = 1", "description": "Makes a site"}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("tool", ToolError),
        ("timeout", ToolTimeout),
        ("unavailable", ServerUnavailable),
        ("invalid", InvalidArguments),
        ("permission", PermissionError),
        ("system", RuntimeError),
    ],
)
async def test_each_kind_of_refusal_raises_its_own(broker, kind, expected):
    for attempt in (
        lambda: call_mcp_tool("s", "refuse", {"kind": kind}),
        lambda: asyncio.to_thread(call_mcp_tool_sync, "s", "refuse", {"kind": kind}),
    ):
        with pytest.raises(expected, match=r"^what happened$") as caught:
            await attempt()
        assert type(caught.value) is expected
        if kind == "tool":
            assert (caught.value.server, caught.value.tool) == ("s", "refuse")
            assert caught.value.content == [{"type": "text", "text": "more"}]


async def test_progress_is_told(broker):
    told = []
    await call_mcp_tool("s", "progress", progress=lambda *one: told.append(one))
    assert told == [(0.0, 2.0, "step 0"), (1.0, 2.0, "step 1"), (2.0, 2.0, "step 2")]
    told.clear()
    call_mcp_tool_sync("s", "progress", progress=lambda *one: told.append(one))
    assert len(told) == 3


async def test_a_progress_function_that_raises_fails_its_call_alone(broker):
    def bad(*told):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await call_mcp_tool("s", "progress", progress=bad)
    assert (await call_mcp_tool("s", "t")).text == "a:s:t"
    with pytest.raises(KeyError, match="mine"):
        call_mcp_tool_sync("s", "progress", progress=bad)
    assert call_mcp_tool_sync("s", "t").text == "a:s:t"


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", float("nan"), "\ud800"])
def test_what_json_cannot_hold_is_refused_before_it_is_sent(broker, handler, value):
    with pytest.raises(InvalidArguments, match="cannot be sent as JSON") as caught:
        call_mcp_tool_sync("s", "t", {"value": value})
    assert caught.value.tool == "t"
    assert handler.requests == []


def test_a_circle_is_refused_before_it_is_sent(broker):
    circle = []
    circle.append(circle)
    with pytest.raises(InvalidArguments, match="cannot be sent"):
        call_mcp_tool_sync("s", "t", {"value": circle})


def test_arguments_that_are_too_long_are_refused_before_they_are_sent(broker, monkeypatch):
    monkeypatch.setattr(runtime_broker, "MOST_BYTES", 1000)
    with pytest.raises(InvalidArguments, match="Write them to a file"):
        call_mcp_tool_sync("s", "t", {"value": "x" * 2000})


async def test_a_time_out_reaches_the_host(broker, handler):
    with pytest.raises(ToolTimeout, match=r"s\.hold did not answer within 0.05 s"):
        await call_mcp_tool("s", "hold", timeout=0.05)
    with pytest.raises(TimeoutError):
        call_mcp_tool_sync("s", "hold", timeout=0.05)
    assert handler.cancelled.acquire(timeout=DEADLINE)
    assert handler.cancelled.acquire(timeout=DEADLINE)


async def test_a_cancelled_call_is_cancelled_on_the_host_and_the_others_go_on(broker, handler):
    held = asyncio.create_task(call_mcp_tool("s", "hold"))
    other = asyncio.create_task(call_mcp_tool("s", "t"))
    assert await asyncio.to_thread(handler.held.acquire, timeout=DEADLINE)
    held.cancel()
    with pytest.raises(asyncio.CancelledError):
        await held
    assert await asyncio.to_thread(handler.cancelled.acquire, timeout=DEADLINE)
    assert (await other).text == "a:s:t"
    assert broker.connection_count == 1


def test_an_interrupted_blocking_call_is_cancelled_on_the_host(broker, handler):
    waits = threading.Event()

    def interrupt():
        waits.wait(DEADLINE)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        call_mcp_tool_sync("s", "hold", progress=lambda *told: waits.set())
    assert handler.cancelled.acquire(timeout=DEADLINE)
    assert call_mcp_tool_sync("s", "t", {"n": 2}).structured == {"n": 2}


async def test_a_thousand_calls_in_one_loop(broker):
    for n in range(1000):
        assert (await call_mcp_tool("s", "t", {"n": n})).structured == {"n": n}
    assert broker.connection_count == 1


async def test_many_calls_at_once_each_get_their_own_answer(broker):
    results = await asyncio.gather(*(call_mcp_tool("s", "t", {"n": n}) for n in range(2000)))
    assert [result.structured["n"] for result in results] == list(range(2000))
    assert broker.connection_count == 1


def test_threads_share_a_bounded_number_of_connections(broker):
    answers = {}

    def ask(n):
        for turn in range(5):
            answers[n, turn] = call_mcp_tool_sync("s", "t", {"n": n, "turn": turn}).structured

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert answers == {(n, turn): {"n": n, "turn": turn} for n in range(100) for turn in range(5)}
    assert broker.connection_count <= 32


@pytest.mark.parametrize("size", [20 * MIB])
async def test_big_payloads_go_both_ways(broker, size):
    text = "é" * (size // 2)
    assert (await call_mcp_tool("s", "t", {"text": text})).structured == {"text": text}
    assert (await asyncio.to_thread(call_mcp_tool_sync, "s", "t", {"text": text})).structured == {"text": text}


async def test_small_calls_are_answered_while_a_big_one_is_sent(broker):
    text = "x" * (20 * MIB)
    big = asyncio.create_task(call_mcp_tool("s", "t", {"text": text}))
    small = await asyncio.gather(*(call_mcp_tool("s", "t", {"n": n}) for n in range(50)))
    assert [one.structured["n"] for one in small] == list(range(50))
    assert (await big).structured == {"text": text}
