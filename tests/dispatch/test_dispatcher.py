"""Dispatch runs a call, and records it once however it ends."""

import asyncio
from dataclasses import replace

import anyio
import pytest

from tests.support.dispatch_probe import Hold, call, done, touching
from tests.support.fake_clock import Clock
from toolyard.core.actions import Kind
from toolyard.core.errors import SecurityError, SystemFault, ToolError, ValidationError
from toolyard.core.events import CallOutcome, Event
from toolyard.core.limits import Limits
from toolyard.dispatch import call_queue
from toolyard.dispatch import dispatcher as module
from toolyard.dispatch.dispatcher import CallDispatcher

READ, WRITE = Kind.READ, Kind.WRITE


async def no(action, decision):
    return False


def nothing(arguments, gate):
    return None


async def test_a_call_gives_the_tools_result_and_one_event(bench, opened):
    dispatch = opened(touching(READ))

    result = await dispatch(call(arguments={"paths": ["a.txt"]}, agent="me"))

    (event,) = bench.log.events
    assert result == done("done")
    assert event.milliseconds > 0
    assert replace(event, milliseconds=0.0) == Event(
        call="c1",
        surface="test",
        agent="me",
        session="s",
        tool="Probe",
        kind="read",
        target=f"{bench.workspace}/a.txt",
        decision="allow",
        reason="strict mode allows it.",
        outcome=CallOutcome.OK,
        code=0,
        milliseconds=0.0,
    )


async def test_a_denied_call_is_recorded_with_what_was_refused(bench, opened):
    dispatch = opened(touching(WRITE))

    with pytest.raises(SecurityError) as caught:
        await dispatch(call(arguments={"paths": ["a.txt", "/etc/passwd"]}))

    (event,) = bench.log.events
    assert (event.outcome, event.code, event.target, event.decision) == (
        CallOutcome.DENIED,
        -32001,
        "/etc/passwd",
        "deny",
    )
    assert event.reason == caught.value.message


async def test_wrong_arguments_are_recorded_and_nothing_runs(bench, opened):
    dispatch = opened(nothing)

    with pytest.raises(ValidationError, match="pahts"):
        await dispatch(call(arguments={"pahts": []}))

    (event,) = bench.log.events
    assert (event.outcome, event.code, event.target, bench.ran) == (CallOutcome.INVALID, -32602, "", [])


@pytest.mark.parametrize(
    ("name", "hint"),
    [("prob", "Did you mean Probe?"), ("zzz", "Available tools: Probe."), ("x" * 5000, "Available tools:")],
)
async def test_an_unknown_tool_is_recorded_and_the_likely_one_named(bench, opened, name, hint):
    dispatch = opened(nothing)

    with pytest.raises(ValidationError) as caught:
        await dispatch(call(tool=name))

    (event,) = bench.log.events
    assert hint in caught.value.hint
    assert (event.outcome, event.tool) == (CallOutcome.INVALID, name[:500])
    assert len(str(caught.value)) < 300


async def test_a_failed_call_is_recorded_with_its_code(bench, opened):
    def fail(arguments, gate):
        raise ToolError("no match", hint="Look again.")

    dispatch = opened(fail)

    with pytest.raises(ToolError, match="no match"):
        await dispatch(call())

    (event,) = bench.log.events
    assert (event.outcome, event.code, event.reason) == (CallOutcome.FAILED, -32603, "no match")


async def test_a_bug_in_a_tool_becomes_a_system_fault_and_the_next_call_runs(bench, opened):
    def bug(arguments, gate):
        if len(bench.ran) == 1:
            raise ZeroDivisionError("secret detail")

    dispatch = opened(bug)

    with pytest.raises(SystemFault) as caught:
        await dispatch(call())
    await dispatch(call())

    assert "ZeroDivisionError" in caught.value.message
    assert "secret detail" not in str(caught.value)
    assert [(e.outcome, e.code, e.reason) for e in bench.log.events[:1]] == [
        (CallOutcome.FAILED, -32000, "ZeroDivisionError: secret detail")
    ]
    assert bench.log.outcomes == ["failed", "ok"]


async def test_a_call_past_its_deadline_is_stopped_and_recorded(bench, opened):
    hold = Hold()
    dispatch = opened(hold, limits=Limits(call_seconds=0.05))

    with pytest.raises(ToolError, match=r"took longer than 0\.05 seconds") as caught:
        await dispatch(call())

    assert caught.value.retryable
    assert bench.log.outcomes == ["failed"]


async def test_a_call_that_finishes_while_it_is_stopped_has_succeeded(bench, opened, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(call_queue, "time", clock)
    monkeypatch.setattr(call_queue, "_PROGRESS_SECONDS", 0.01)

    def late(arguments, gate):
        gate.loop.call_soon_threadsafe(clock.put_forward, 100.0)  # the deadline comes when it has begun
        assert gate.budget.cancelled.wait(30)

    dispatch = opened(late, limits=Limits(call_seconds=60.0))

    assert await dispatch(call()) == done("done")
    assert bench.log.outcomes == ["ok"]


async def test_what_only_reads_and_was_told_to_stop_has_not_succeeded(bench, opened):
    def half(arguments, gate):
        hold.entered.set()
        gate.budget.cancelled.wait(10)
        return done("half of it")

    hold = Hold()
    overdue = opened(half, limits=Limits(call_seconds=0.05), read_only=True)
    with pytest.raises(ToolError, match="took longer"):
        await overdue(call())

    hold.entered.clear()
    task = asyncio.create_task(opened(half, read_only=True)(call()))
    await hold.is_running()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert bench.log.outcomes == ["failed", "cancelled"]


async def test_a_thread_that_does_not_stop_is_left_behind(bench, opened, monkeypatch):
    monkeypatch.setattr(module, "_STOP_SECONDS", 0.05)
    hold = Hold(heeds=False)
    dispatch = opened(hold, limits=Limits(call_seconds=0.05))

    with pytest.raises(ToolError, match="took longer"):
        await dispatch(call())

    hold.release.set()
    assert bench.log.outcomes == ["failed"]


async def test_a_cancelled_call_stops_its_thread_and_is_recorded(bench, opened):
    hold = Hold()
    task = asyncio.create_task(opened(hold)(call()))
    await hold.is_running()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert bench.log.outcomes == ["cancelled"]


async def test_a_cancelled_call_that_had_done_its_work_is_recorded_as_done(bench, opened):
    def finishes(arguments, gate):
        hold.entered.set()
        gate.budget.cancelled.wait(10)

    hold = Hold()
    task = asyncio.create_task(opened(finishes)(call()))
    await hold.is_running()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert bench.log.outcomes == ["ok"]


async def test_being_cancelled_again_and_again_does_not_hurry_the_event(bench, opened):
    """A cancel scope of anyio, as the MCP server uses them, cancels at every turn of the loop."""
    hold = Hold()

    def slow_to_stop(arguments, gate):
        hold.entered.set()
        gate.budget.cancelled.wait(10)
        hold.release.wait(0.05)

    dispatch = opened(slow_to_stop)
    async with anyio.create_task_group() as group:
        group.start_soon(dispatch, call())
        await hold.is_running()
        group.cancel_scope.cancel()

    assert bench.log.outcomes == ["ok"]


async def test_a_second_cancellation_does_not_hurry_the_event_either(bench, opened):
    hold = Hold(heeds=False)
    task = asyncio.create_task(opened(hold)(call()))
    await hold.is_running()

    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    assert bench.log.events == []
    hold.release.set()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert bench.log.outcomes == ["ok"]


async def test_a_call_cancelled_before_a_thread_was_free_does_nothing(bench, opened, monkeypatch):
    monkeypatch.setattr(module, "_THREADS", 1)
    hold = Hold()
    dispatch = opened(hold)
    first = asyncio.create_task(dispatch(call()))
    await hold.is_running()
    second = asyncio.create_task(dispatch(call(arguments={"paths": ["second"]})))
    await asyncio.sleep(0)

    second.cancel()
    await asyncio.sleep(0)
    hold.release.set()
    await first
    with pytest.raises(asyncio.CancelledError):
        await second

    assert len(bench.ran) == 1
    assert sorted(bench.log.outcomes) == ["cancelled", "ok"]


# Closing


async def test_closing_stops_what_runs_and_waits_for_it(bench, opened):
    hold = Hold()
    dispatch = opened(hold)
    task = asyncio.create_task(dispatch(call()))
    await hold.is_running()

    dispatch.close()

    with pytest.raises(ToolError, match="stopped before it finished"):
        await task
    assert bench.log.outcomes == ["failed"]


async def test_closing_writes_what_is_still_owed(bench):
    dispatch = bench.dispatch(nothing)
    bench.log.broken = True
    with pytest.raises(SystemFault):
        await dispatch(call())
    with pytest.raises(SystemFault):
        dispatch.close()

    bench.log.broken = False
    dispatch.close()

    assert bench.log.outcomes == ["ok"]


async def test_hidden_tools_run_for_their_surface_alone(bench):
    shown = bench.dispatch(nothing)
    dispatch = CallDispatcher({}, shown.tools, bench.resources(), bench.log)

    assert await dispatch(call(hidden=True)) == done("done")
    with pytest.raises(ValidationError, match="there is no tool called"):
        await dispatch(call())

    assert dict(dispatch.tools) == {}
    dispatch.close()
    shown.close()


async def test_calls_in_one_line_run_one_after_another_as_they_came(bench, opened):
    began = []

    def run(arguments, gate):
        began.append(gate.call.id)
        hold.entered.set()
        assert hold.release.wait(30)
        return done("done")

    hold = Hold()
    dispatch = opened(run, line="thread")
    calls = [replace(call(), id=str(number)) for number in range(8)]
    tasks = [asyncio.create_task(dispatch(each)) for each in calls]
    await asyncio.to_thread(hold.entered.wait, 30)
    tasks[3].cancel()
    hold.release.set()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert began == [str(number) for number in range(8) if number != 3]
    assert dispatch._queues._queues == {}


async def test_a_call_that_waits_in_line_for_too_long_is_told_and_does_not_run(bench, opened):
    hold = Hold(heeds=False)
    dispatch = opened(hold, line="thread", limits=Limits(call_seconds=0.2))
    first = asyncio.create_task(dispatch(call()))
    await hold.is_running()

    with pytest.raises(ToolError, match="took longer"):
        await dispatch(call())

    hold.release.set()
    await first
    assert len(bench.ran) == 1
    assert dispatch._queues._queues == {}
