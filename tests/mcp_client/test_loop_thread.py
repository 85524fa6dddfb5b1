"""The loop in a thread of its own."""

from __future__ import annotations

import asyncio
import os
import selectors
import threading

import pytest

from toolyard.core.errors import SystemFault
from toolyard.core.loop_thread import BusyPollSelector
from toolyard.mcp_client import LoopThread


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


@pytest.fixture
def sleeps(monkeypatch):
    """The time-outs with which it really went to sleep, and a pipe that it watches."""
    slept: list[float | None] = []
    real = selectors.DefaultSelector.select

    def select(self, timeout=None):
        if timeout != 0:
            slept.append(timeout)
        return real(self, timeout)

    monkeypatch.setattr(selectors.DefaultSelector, "select", select)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    receiver, sender = os.pipe()
    with BusyPollSelector() as selector:
        selector.register(receiver, selectors.EVENT_READ)
        yield slept, selector, sender
    os.close(receiver)
    os.close(sender)


def test_after_something_happened_it_looks_before_it_sleeps(sleeps, monkeypatch):
    slept, selector, sender = sleeps
    os.write(sender, b"x")
    assert len(selector.select(5)) == 1
    assert slept == [5]
    assert len(selector.select(5)) == 1  # it is still there to read
    assert slept == [5]


def test_it_looks_for_a_moment_only_and_not_where_nothing_happened(sleeps):
    slept, selector, sender = sleeps
    looked: list[float] = []
    selector._busy_poll = lambda timeout: looked.append(timeout) or []
    assert selector.select(0.001) == []
    assert (slept, looked) == ([0.001], [])
    os.write(sender, b"x")
    assert len(selector.select(5)) == 1
    assert looked == []
    assert len(selector.select(5)) == 1
    assert (slept, looked) == ([0.001, 5, 5], [5])


def test_looking_ends(sleeps):
    slept, selector, _ = sleeps
    selector._was_busy = True
    assert selector.select(0.01) == []
    assert slept == [0.01]


def test_a_machine_with_one_processor_sleeps_at_once(sleeps, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    with BusyPollSelector() as selector:
        selector._was_busy = True
        selector._busy_poll = lambda timeout: pytest.fail("it looked")
        assert selector.select(0.001) == []
