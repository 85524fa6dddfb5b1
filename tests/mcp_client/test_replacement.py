"""When a local server is replaced, and what costs a call alone: time-outs and messages over the limit."""

from __future__ import annotations

import pytest

from toolyard.mcp_client import CallTimedOut, ServerMisbehaved, ServerUnavailable, stdio
from toolyard.mcp_client import managed_server as upstreams

from .upstreams import PATIENCE_SECONDS, faulty, is_alive, until, upstream


def echo(pool, server="up"):
    return pool.loop.run(pool.call(server, "echo", {"text": "hi"})).text


@pytest.mark.parametrize("entry", [upstream(), faulty("huge-line")], ids=["number first", "number last"])
def test_a_message_over_the_limit_fails_its_call_alone(open_pool, entry):
    pool = open_pool(entry)
    with pytest.raises(ServerMisbehaved, match="sent an answer that is longer than 64 MiB"):
        pool.loop.run(pool.call("up", "blob", {"size": 65 << 20}))
    assert pool.loop.run(pool.server_listing("up")).tools
    assert pool.status()["up"].starts == 1


def test_a_notification_over_the_limit_fails_no_call(open_pool):
    pool = open_pool(faulty("huge-notification"))
    assert echo(pool) == "hi"


def test_a_message_without_an_end_ends_the_server(open_pool, monkeypatch):
    monkeypatch.setattr(stdio, "MAX_LINE_BYTES", 1 << 20)
    monkeypatch.setattr(stdio, "ENDLESS_BYTES", 8 << 20)
    pool = open_pool(upstream())
    with pytest.raises(ServerUnavailable, match="was killed: it sent a message longer than"):
        pool.loop.run(pool.call("up", "blob", {"size": 65 << 20}))
    until(lambda: pool.status()["up"].state == "failed")


def test_a_server_that_times_out_again_and_again_is_replaced(open_pool, monkeypatch):
    monkeypatch.setattr(upstreams, "_MIN_COUNTED_SECONDS", 0.0)
    pool = open_pool(upstream())
    assert echo(pool) == "hi"
    first = pool.status()["up"].pid
    for _ in range(3):
        with pytest.raises(CallTimedOut):
            pool.loop.run(pool.call("up", "wait", {"seconds": 60}, 0.05))
    assert "did not answer 3 calls in a row" in pool.status()["up"].last_error
    assert echo(pool) == "hi"
    until(lambda: not is_alive(first))
    assert pool.status()["up"].starts == 2


def test_a_server_whose_own_time_limit_is_short_is_replaced_too(open_pool):
    pool = open_pool(upstream(timeout=0.05))
    pool.loop.run(pool.server_listing("up"))
    first = pool.status()["up"].pid
    for _ in range(3):
        with pytest.raises(CallTimedOut):
            pool.loop.run(pool.call("up", "wait", {"seconds": 60}))
    until(lambda: not is_alive(first))


def test_a_server_that_no_longer_lists_its_tools_is_replaced(open_pool, monkeypatch):
    pool = open_pool(faulty("stops-listing"))
    assert echo(pool) == "hi"
    first = pool.status()["up"].pid
    monkeypatch.setattr(pool._attached_server("up"), "_time_limits", upstreams.ServerTimeouts(0.05, 0.05, 60.0))
    for _ in range(3):
        with pytest.raises(CallTimedOut):
            pool.loop.run(pool.server_listing("up"))
    until(lambda: not is_alive(first))


def test_a_server_that_answers_in_between_is_not_replaced(open_pool, monkeypatch):
    monkeypatch.setattr(upstreams, "_MIN_COUNTED_SECONDS", 0.0)
    pool = open_pool(upstream())
    for _ in range(4):
        with pytest.raises(CallTimedOut):
            pool.loop.run(pool.call("up", "wait", {"seconds": 60}, 0.05))
        assert echo(pool) == "hi"
    assert pool.status()["up"].starts == 1


def test_short_deadlines_and_calls_of_others_do_not_get_a_server_replaced(open_pool, monkeypatch):
    pool = open_pool(upstream())
    assert echo(pool) == "hi"
    for _ in range(4):
        with pytest.raises(CallTimedOut):
            pool.loop.run(pool.call("up", "wait", {"seconds": 60}, 0.01))
    monkeypatch.setattr(upstreams, "_MIN_COUNTED_SECONDS", 0.0)
    other = pool.loop.submit(pool.call("up", "wait", {"seconds": 1}))
    for _ in range(4):
        with pytest.raises(CallTimedOut):
            pool.loop.run(pool.call("up", "wait", {"seconds": 60}, 0.01))
    assert not other.result(PATIENCE_SECONDS).is_error
    assert pool.status()["up"].starts == 1
