"""Calls that run without a task are cancelled, bounded and answered like all others."""

import asyncio

import pytest

from toolyard.codemode.broker import Broker
from toolyard.core.eager_call import InlineFuture

from .brokering import Hold, Raw


class Replies(Hold):
    """As `Hold`, but each call waits for a reply of its own."""

    def __init__(self):
        super().__init__()
        self.waiting = []

    async def __call__(self, request, progress):
        self._count(1)
        try:
            self.waiting.append(InlineFuture(loop=asyncio.get_running_loop()))
            return await self.waiting[-1]
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self._count(-1)


@pytest.fixture
def replies():
    return Replies()


@pytest.fixture
def broker(yard, replies):
    broker = Broker.open("a", replies, yard.loop, can_run_eagerly=lambda request: request.tool != "slow")
    yard.brokers.append(broker)
    return broker


def test_a_call_is_answered_when_its_reply_comes_and_none_becomes_a_task(yard, broker, replies):
    with Raw(broker) as raw:
        raw.ask(1)
        raw.ask(2)
        assert replies.reaches(lambda held: held.open == 2)
        before = yard.on_loop(lambda: len(asyncio.all_tasks()))
        yard.on_loop(lambda: replies.waiting[1].set_result("second"))
        assert raw.receive() == {"id": 2, "result": "second"}
        yard.on_loop(lambda: replies.waiting[0].set_result("first"))
        assert raw.receive() == {"id": 1, "result": "first"}
        assert before == yard.on_loop(lambda: len(asyncio.all_tasks()))
    assert yard.settles(lambda: broker.admission.is_idle)


def test_a_call_that_fails_is_told(yard, broker, replies):
    with Raw(broker) as raw:
        raw.ask(1)
        assert replies.reaches(lambda held: held.open == 1)
        yard.on_loop(lambda: replies.waiting[0].set_exception(ZeroDivisionError()))
        assert raw.receive()["error"]["kind"] == "system"


def test_a_cancelled_call_ends_and_the_next_is_served(yard, broker, replies):
    with Raw(broker) as raw:
        raw.ask(1)
        raw.send({"id": 2, "do": "cancel", "call": 1})
        assert replies.reaches(lambda held: held.cancelled == 1 and held.open == 0)
        raw.ask(3)
        assert replies.reaches(lambda held: held.open == 1)
        yard.on_loop(lambda: replies.waiting[-1].set_result("after"))
        assert raw.receive() == {"id": 3, "result": "after"}


def test_a_connection_that_goes_takes_its_calls_with_it(yard, broker, replies):
    with Raw(broker) as raw:
        for number in range(1, 4):
            raw.ask(number)
        raw.ask(4, "slow")
        assert replies.reaches(lambda held: held.open == 4)
    assert replies.reaches(lambda held: held.open == 0 and held.cancelled == 4)
    assert yard.settles(lambda: broker.admission.is_idle and broker.connection_count == 0)


def test_closing_ends_them(yard, broker, replies):
    with Raw(broker) as raw:
        raw.ask(1)
        raw.ask(2, "slow")
        assert replies.reaches(lambda held: held.open == 2)
        broker.close()
        assert (replies.open, replies.cancelled) == (0, 2)
