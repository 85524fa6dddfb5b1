"""Buckets of tokens: never more calls than a full bucket and what has dripped into it since."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.barrier import together
from tests.support.redis_server import RedisServer
from tests.support.thread_store_suite.kit import eventually
from toolyard.assistant.threads.rate_limiter import MemoryRateLimiter, RateLimiter, RedisRateLimiter
from toolyard.assistant.threads.redis_client import RedisClient
from toolyard.config.assistant import Rate

SLOW = Rate(5, 86_400.0)
"""So slow that nothing drips in while a test runs."""
PATIENCE_SECONDS = 30.0

TAKES = """
import sys
from toolyard.config.assistant import Rate
from toolyard.assistant.threads.rate_limiter import RedisRateLimiter
from toolyard.assistant.threads.redis_client import RedisClient
rates = RedisRateLimiter(RedisClient(sys.argv[1]), sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
print(sum(rates.take_token("client", "chat", Rate(40, 86400.0)) == 0 for _ in range(40)))
"""


@pytest.fixture(params=["memory", "redis"])
def rates(request: pytest.FixtureRequest) -> Iterator[RateLimiter]:
    if request.param == "memory":
        yield MemoryRateLimiter()
        return
    with RedisClient(request.getfixturevalue("redis_server").url) as link:
        yield RedisRateLimiter(link, request.getfixturevalue("namespace"))


def taken(rates: RateLimiter, rate: Rate, times: int, client: str = "client", tool: str = "chat") -> int:
    return sum(rates.take_token(client, tool, rate) == 0.0 for _ in range(times))


@given(
    calls=st.integers(1, 20),
    seconds=st.sampled_from([1.0, 60.0, 3_600.0]),
    pauses=st.lists(st.floats(0, 2, allow_nan=False), min_size=1, max_size=80),
)
def test_no_window_of_time_has_more_calls_than_a_bucket_and_its_drip(
    calls: int, seconds: float, pauses: list[float]
) -> None:
    now, admitted = 1_000.0, list[float]()
    rates, rate = MemoryRateLimiter(lambda: now), Rate(calls, seconds)
    for pause in pauses:
        now += pause * seconds / calls
        if rates.take_token("client", "chat", rate) == 0.0:
            admitted.append(now)
    for first, begin in enumerate(admitted):
        for last, end in enumerate(admitted[first:], first):
            assert last - first + 1 <= calls + (end - begin) * calls / seconds + 1e-6


@given(calls=st.integers(1, 50), seconds=st.sampled_from([1.0, 60.0]), waits=st.integers(1, 30))
def test_whoever_waits_as_long_as_was_said_gets_in_and_nobody_sooner(calls: int, seconds: float, waits: int) -> None:
    now = 5.0
    rates, rate = MemoryRateLimiter(lambda: now), Rate(calls, seconds)
    assert taken(rates, rate, calls) == calls
    for _ in range(waits):
        wait = rates.take_token("client", "chat", rate)
        assert 0 < wait <= seconds / calls + 1e-6
        now += wait * 0.9
        assert rates.take_token("client", "chat", rate) > 0  # asking costs nothing
        now += wait * 0.1 + 1e-9
        assert rates.take_token("client", "chat", rate) == 0.0


def test_an_idle_bucket_fills_up_and_never_over() -> None:
    now = 0.0
    rates = MemoryRateLimiter(lambda: now)
    assert taken(rates, Rate(10, 60.0), 20) == 10
    now = 1_000_000.0
    assert taken(rates, Rate(10, 60.0), 20) == 10


def test_buckets_that_are_full_again_are_forgotten_and_others_are_not() -> None:
    now = 0.0
    rates, rate = MemoryRateLimiter(lambda: now), Rate(2, 60.0)
    taken(rates, Rate(1, 1e6), 1, client="strict")
    for number in range(5_000):
        now += 1.0
        rates.take_token(f"client {number}", "chat", rate)
    assert len(rates._buckets) <= 1_001
    assert rates.take_token("strict", "chat", Rate(1, 1e6)) > 0


def test_each_client_and_each_tool_has_its_own(rates: RateLimiter) -> None:
    for client, tool in (("a", "chat"), ("a", "debug"), ("b", "chat"), ("", "chat"), ("\udcff\0" * 999, "chat")):
        assert taken(rates, SLOW, 8, client, tool) == SLOW.calls
        assert rates.take_token(client, tool, SLOW) == pytest.approx(SLOW.seconds / SLOW.calls, rel=0.01)


def test_tokens_drip_in_with_time(rates: RateLimiter) -> None:
    rate = Rate(20, 1.0)
    began = time.monotonic()
    for _ in range(30):
        eventually(lambda: rates.take_token("client", "chat", rate) == 0.0)
    assert time.monotonic() - began >= 10 / 20 - 0.01


def test_many_threads_at_once_never_get_more_than_there_is(rates: RateLimiter) -> None:
    barrier = threading.Barrier(8)

    def take() -> int:
        barrier.wait(PATIENCE_SECONDS)
        return taken(rates, Rate(50, 86_400.0), 30)

    with ThreadPoolExecutor(8) as pool:
        results = [pool.submit(take) for _ in range(8)]
    assert sum(each.result() for each in results) == 50


def test_processes_that_share_redis_never_get_more_than_there_is(redis_server: RedisServer, namespace: str) -> None:
    with together(TAKES, [(redis_server.url, namespace)] * 2) as processes:
        told = [process.communicate(timeout=PATIENCE_SECONDS)[0] for process in processes]
    assert sum(map(int, told)) == 40


def test_a_bucket_in_redis_goes_by_itself(redis_server: RedisServer, namespace: str) -> None:
    link = RedisClient(redis_server.url)
    RedisRateLimiter(link, namespace).take_token("client", "chat", Rate(3, 60.0))
    ((key,),) = link.run_commands(("KEYS", f"toolyard:{namespace}:*"))
    assert 0 < link.run_commands(("PTTL", key))[0] <= 61_000
