"""Dispatch asks where the policy says so, and tells how long calls get on."""

import asyncio
import os

import pytest

from tests.support.dispatch_probe import Hold, call, done, touching
from tests.support.fake_clock import Clock
from toolyard.core.actions import Kind
from toolyard.core.calls import AnswerPending
from toolyard.core.errors import SecurityError, SystemFault, ToolError
from toolyard.core.limits import Limits
from toolyard.core.permission_modes import PermissionMode
from toolyard.dispatch import call_context, call_queue
from toolyard.dispatch import dispatcher as module

READ, WRITE = Kind.READ, Kind.WRITE


async def no(action, decision):
    return False


async def test_a_yes_lets_the_call_through_and_the_event_says_it_was_asked(bench, opened):
    asked = []

    async def answer(action, decision):
        asked.append((action.kind, action.path))
        return True

    dispatch = opened(touching(WRITE), PermissionMode.DEFAULT)

    assert await dispatch(call(arguments={"paths": ["a.txt"]}, ask=answer)) == done("done")
    assert asked == [(Kind.WRITE, f"{bench.workspace}/a.txt")]
    assert [(e.outcome.value, e.decision) for e in bench.log.events] == [("ok", "ask")]


@pytest.mark.parametrize("ask", [no, None], ids=["no", "nobody"])
async def test_a_no_or_nobody_to_ask_refuses(bench, opened, ask):
    dispatch = opened(touching(WRITE), PermissionMode.DEFAULT)
    options = {"ask": ask} if ask else {}

    with pytest.raises(SecurityError, match=r"The answer was no|No one can approve it here"):
        await dispatch(call(arguments={"paths": ["a.txt"]}, **options))

    assert bench.log.outcomes == ["denied"]


async def test_one_yes_covers_looking_at_what_may_be_written(bench, opened):
    asked = []

    async def answer(action, decision):
        asked.append(action.kind)
        return True

    dispatch = opened(touching(WRITE, READ), PermissionMode.DEFAULT)
    outside = os.path.join(os.path.dirname(bench.workspace), "outside.txt")

    await dispatch(call(arguments={"paths": [outside]}, ask=answer))

    assert asked == [Kind.WRITE]


async def test_a_question_that_ends_the_call_is_recorded_as_asked(bench, opened):
    async def later(action, decision):
        raise AnswerPending

    dispatch = opened(touching(WRITE), PermissionMode.DEFAULT)

    with pytest.raises(AnswerPending):
        await dispatch(call(arguments={"paths": ["a.txt"]}, ask=later))

    assert [(e.outcome.value, e.decision) for e in bench.log.events] == [("asked", "ask")]


@pytest.mark.parametrize(("questions", "refused"), [(8, False), (9, True)])
async def test_a_call_puts_eight_questions_at_most(bench, opened, questions, refused):
    asked = []

    async def answer(action, decision):
        asked.append(action.path)
        return True

    dispatch = opened(touching(WRITE), PermissionMode.DEFAULT)
    paths = [f"new-{number}" for number in range(questions)]
    running = dispatch(call(arguments={"paths": paths}, ask=answer))

    if refused:
        with pytest.raises(SecurityError, match="too many approvals"):
            await running
    else:
        await running
    assert len(asked) == 8
    assert bench.log.outcomes == ["denied" if refused else "ok"]


async def test_the_time_somebody_thinks_is_not_the_calls(bench, opened, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(call_context, "time", clock)

    async def slowly(action, decision):
        clock.put_forward(100.0)
        return True

    dispatch = opened(touching(WRITE), PermissionMode.DEFAULT, limits=Limits(call_seconds=60.0))

    assert await dispatch(call(arguments={"paths": ["a.txt"]}, ask=slowly)) == done("done")


# Progress


async def test_long_calls_tell_how_they_get_on(bench, opened, monkeypatch):
    monkeypatch.setattr(call_queue, "_PROGRESS_SECONDS", 0.01)
    hold, told = Hold(), []

    async def progress(elapsed, total, message):
        told.append((total, message))
        hold.release.set()

    await opened(hold, limits=Limits(call_seconds=30.0))(call(progress=progress))

    assert told[0] == (30.0, "Probe has been running for 0 s")


async def test_a_caller_who_does_not_take_the_news_does_not_stop_the_clock(bench, opened, monkeypatch):
    monkeypatch.setattr(call_queue, "_PROGRESS_SECONDS", 0.01)

    async def stuck(elapsed, total, message):
        await asyncio.Event().wait()

    with pytest.raises(ToolError, match="took longer"):
        await opened(Hold(), limits=Limits(call_seconds=0.1))(call(progress=stuck))


async def test_a_caller_who_cannot_be_told_ends_the_call_and_its_thread(bench, opened, monkeypatch):
    monkeypatch.setattr(call_queue, "_PROGRESS_SECONDS", 0.01)

    async def gone(elapsed, total, message):
        raise ConnectionError("gone")

    hold = Hold()

    with pytest.raises(SystemFault, match="ConnectionError"):
        await opened(hold)(call(progress=gone))

    assert bench.log.outcomes == ["failed"]
