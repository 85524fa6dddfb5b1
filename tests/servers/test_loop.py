"""The loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading

import pytest

from toolyard.core.errors import SystemFault
from toolyard.servers import LoopThread


async def _value(value):
    await asyncio.sleep(0)
    return value


def test_it_runs_work_of_many_threads():
    with LoopThread() as loop:
        found = []
        threads = [threading.Thread(target=lambda n=n: found.append(loop.run(_value(n)))) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == list(range(20))


def test_errors_come_out_as_they_are():
    async def fail():
        raise KeyError("x")

    with LoopThread() as loop, pytest.raises(KeyError):
        loop.run(fail())


def test_running_on_its_own_thread_is_refused_instead_of_waiting_for_ever():
    async def inside():
        return loop.run(_value(1))

    with LoopThread() as loop, pytest.raises(RuntimeError, match="wait for itself"):
        loop.run(inside())


def test_a_caller_that_gives_up_cancels_the_work():
    cancelled = threading.Event()

    async def endless():
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with LoopThread() as loop:
        with pytest.raises(TimeoutError):
            loop.run(endless(), timeout=0.05)
        assert cancelled.wait(5)


def test_closing_lets_work_clean_up_and_refuses_more():
    cleaned = []

    async def endless(started):
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            cleaned.append(True)

    loop = LoopThread()
    started = threading.Event()
    future = loop.submit(endless(started))
    assert started.wait(5)
    loop.close()
    loop.close()
    assert cleaned == [True]
    assert future.cancelled()
    with pytest.raises(SystemFault, match="closed"):
        loop.run(_value(1))
