"""The caller's function that is asked: of either kind, failing, or answering with something else."""

from __future__ import annotations

import asyncio
import functools
import threading
import time

import pytest

from toolyard.core.actions import Action, Decision, Effect, Kind
from toolyard.drivers.approval_callback import approval_on_caller_loop

ACTION = Action(Kind.WRITE, "Write", "/ws/a", "/ws/a")
DECISION = Decision(Effect.ASK, "Writing is asked for.")
SECONDS = 20


def asked(ask):
    """Asked as the server asks, from another loop; the answer, and the faults that were told."""
    faults = []

    async def main():
        wrapped = approval_on_caller_loop(ask, faults.append)

        def serve():
            return asyncio.run(asyncio.wait_for(wrapped(ACTION, DECISION), SECONDS))

        return await asyncio.to_thread(serve)

    return asyncio.run(main()), [fault.message for fault in faults]


class Slow:
    async def __call__(self, action, decision):
        await asyncio.sleep(0)
        return action.tool == "Write"


async def coroutine(action, decision, *, says=True):
    await asyncio.sleep(0)
    return says


@pytest.mark.parametrize(
    "ask",
    [
        coroutine,
        functools.partial(coroutine, says=True),
        Slow(),
        lambda action, decision: True,
        lambda action, decision: coroutine(action, decision, says=True),
        lambda action, decision: action.path == "/ws/a" and decision.effect is Effect.ASK,
    ],
)
def test_functions_of_every_kind_can_say_yes(ask):
    assert asked(ask) == (True, [])


def test_no_is_no():
    assert asked(lambda action, decision: False) == (False, [])
    assert asked(functools.partial(coroutine, says=False)) == (False, [])


def test_a_plain_function_may_wait_while_the_loop_goes_on():
    turned = threading.Event()

    async def main():
        wrapped = approval_on_caller_loop(lambda action, decision: turned.wait(SECONDS), lambda fault: None)
        answer = asyncio.create_task(wrapped(ACTION, DECISION))
        await asyncio.sleep(0.05)
        turned.set()  # which nobody could do if it held up the loop
        return await answer

    assert asyncio.run(main()) is True


def test_a_plain_function_that_never_answers_does_not_keep_the_loop_from_ending():
    never = threading.Event()

    async def main():
        wrapped = approval_on_caller_loop(lambda action, decision: never.wait(SECONDS), lambda fault: None)
        answer = asyncio.create_task(wrapped(ACTION, DECISION))
        await asyncio.sleep(0.05)
        answer.cancel()

    began = time.monotonic()
    try:
        asyncio.run(main())
        assert time.monotonic() - began < SECONDS / 2
    finally:
        never.set()


def raising(error):
    def ask(action, decision):
        raise error

    return ask


async def cancelled(action, decision):
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (raising(KeyError("window")), "raised KeyError: 'window'"),
        (raising(ValueError()), "raised ValueError"),
        (raising(StopIteration()), "raised RuntimeError: StopIteration"),
        (raising(SystemExit(1)), "raised RuntimeError: SystemExit"),
        (cancelled, "was cancelled"),
        (lambda action, decision: "yes", "answered with str"),
        (lambda action, decision: None, "answered with NoneType"),
        (lambda action: True, "raised TypeError"),
    ],
)
def test_whatever_is_no_answer_is_a_no_that_is_told(ask, what):
    answer, (fault,) = asked(ask)
    assert answer is False
    assert fault.startswith(f"`ask` {what}")
    assert fault.endswith(", so the action was denied.")
