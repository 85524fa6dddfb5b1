"""Servers that several pools use, and how many of them run at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from toolyard.mcp_client import ServerPool, ServerUnavailable, SharedServers

from .upstreams import PATIENCE_SECONDS, is_alive, until, upstream


@pytest.fixture
def open_shared() -> Iterator[Callable[..., SharedServers]]:
    made: list[SharedServers] = []

    def make(**options) -> SharedServers:
        made.append(SharedServers(**options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def pid(pool: ServerPool, server: str = "up") -> int:
    pool.loop.run(pool.call(server, "echo", {"text": "hi"}))
    found = pool.status()[server].pid
    assert found is not None
    return found


def test_pools_with_the_same_entry_use_one_process(open_shared):
    shared = open_shared()
    pools = [ServerPool([upstream(env={"KEY": "1"})], shared=shared) for _ in range(5)]
    assert len({pid(pool) for pool in pools}) == 1


@pytest.mark.parametrize(
    ("one", "other", "is_one_process"),
    [
        (upstream(env={"KEY": "1"}), upstream(env={"KEY": "2"}), False),
        (upstream(), upstream("up", "--tools", "3"), False),
        (upstream(timeout=5), upstream(timeout=6), False),
        (upstream(shared=False), upstream(shared=False), False),
        (upstream(exclude_tools=("add",)), upstream(exclude_tools=("echo",)), True),
        (upstream(pinned=False), upstream(), True),
    ],
    ids=["environment", "arguments", "time-out", "not to be shared", "which tools are allowed", "pinned"],
)
def test_only_entries_that_a_server_could_tell_apart_have_processes_of_their_own(
    open_shared, one, other, is_one_process
):
    shared = open_shared()
    pools = [ServerPool([entry], shared=shared) for entry in (one, other)]
    assert (pid(pools[0]) == pid(pools[1])) is is_one_process


def test_a_server_ends_with_the_last_pool_that_uses_it(open_shared):
    shared = open_shared()
    first, second = (ServerPool([upstream()], shared=shared) for _ in range(2))
    used = pid(first)
    first.close()
    with pytest.raises(ServerUnavailable, match="is closed"):
        pid(first)
    assert pid(second) == used
    second.close()
    assert not is_alive(used)


def test_every_pool_hears_that_the_tools_of_a_server_have_changed(open_shared):
    shared, heard = open_shared(), list[str]()
    entry = upstream("up", "--fault", "list-changed")
    tell = [lambda name, who=who: heard.append(f"{who} {name}") for who in "ab"]
    pools = [ServerPool([entry], shared=shared, on_list_changed=each) for each in tell]
    for pool in pools:
        pool.loop.run(pool.server_listing("up"))
    pid(pools[0])
    until(lambda: {"a up", "b up"} <= set(heard))


def test_the_server_that_was_idle_for_longest_makes_room(open_shared):
    pool = ServerPool([upstream(name) for name in "abc"], shared=open_shared(max_running=2))
    first, second = pid(pool, "a"), pid(pool, "b")
    third = pid(pool, "c")
    assert [is_alive(each) for each in (first, second, third)] == [False, True, True]
    again = pid(pool, "a")
    assert again != first
    assert [is_alive(each) for each in (second, third, again)] == [False, True, True]


def test_where_all_are_busy_a_start_waits_for_a_call_to_end(open_shared):
    pool = ServerPool([upstream(name) for name in "ab"], shared=open_shared(max_running=1))
    pid(pool, "a")
    busy = pool.loop.submit(pool.call("a", "wait", {"seconds": 0.5}))
    until(lambda: pool.status()["a"].in_flight == 1)
    waits = pool.loop.submit(pool.call("b", "echo", {"text": "at last"}))
    assert not busy.result(PATIENCE_SECONDS).is_error
    assert waits.result(PATIENCE_SECONDS).text == "at last"
    assert pool.status()["a"].pid is None


def test_a_start_that_found_no_room_says_so_and_is_tried_again_at_once(open_shared):
    pool = ServerPool([upstream("a"), upstream("b", startup_timeout=0.2)], shared=open_shared(max_running=1))
    pid(pool, "a")
    busy = pool.loop.submit(pool.call("a", "wait", {"seconds": 60}))
    until(lambda: pool.status()["a"].in_flight == 1)
    with pytest.raises(ServerUnavailable, match="1 servers run already, and all of them are busy") as told:
        pid(pool, "b")
    assert "toolyard.max_running_servers" in told.value.hint
    busy.cancel()
    until(lambda: pool.status()["a"].in_flight == 0)
    assert pool.status()["b"].retry_in == 0
