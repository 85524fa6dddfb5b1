"""Dispatch runs a call, and records it once however it ends."""

import asyncio
import os
from dataclasses import replace

import anyio
import pytest

from toolyard.app import dispatch as module
from toolyard.app.dispatch import AnswerPending, Dispatch
from toolyard.core.actions import Kind
from toolyard.core.errors import SecurityError, SystemFault, ToolError, ValidationError
from toolyard.core.events import Event, Outcome
from toolyard.core.limits import Limits
from toolyard.core.modes import PermissionMode
from toolyard.testing.probes import Hold, call, done, touching

READ, WRITE = Kind.READ, Kind.WRITE


@pytest.fixture
def opened(bench):
    """`bench.dispatch`, closed at the end."""
    made = []

    def make(*arguments, **options):
        made.append(bench.dispatch(*arguments, **options))
        return made[-1]

    yield make
    bench.log.broken = False
    for dispatch in made:
        dispatch.close()


async def yes(action, decision):
    return True


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
        outcome=Outcome.OK,
        code=0,
        milliseconds=0.0,
    )


async def test_a_denied_call_is_recorded_with_what_was_refused(bench, opened):
    dispatch = opened(touching(WRITE))

    with pytest.raises(SecurityError) as caught:
        await dispatch(call(arguments={"paths": ["a.txt", "/etc/passwd"]}))

    (event,) = bench.log.events
    assert (event.outcome, event.code, event.target, event.decision) == (
        Outcome.DENIED,
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
    assert (event.outcome, event.code, event.target, bench.ran) == (Outcome.INVALID, -32602, "", [])


@pytest.mark.parametrize(
    ("name", "hint"),
    [("prob", "Did you mean Probe?"), ("zzz", "The tools are Probe."), ("x" * 5000, "The tools are")],
)
async def test_an_unknown_tool_is_recorded_and_the_likely_one_named(bench, opened, name, hint):
    dispatch = opened(nothing)

    with pytest.raises(ValidationError) as caught:
        await dispatch(call(tool=name))

    (event,) = bench.log.events
    assert hint in caught.value.hint
    assert (event.outcome, event.tool) == (Outcome.INVALID, name[:500])
    assert len(str(caught.value)) < 300


async def test_a_failed_call_is_recorded_with_its_code(bench, opened):
    def fail(arguments, gate):
        raise ToolError("no match", hint="Look again.")

    dispatch = opened(fail)

    with pytest.raises(ToolError, match="no match"):
        await dispatch(call())

    (event,) = bench.log.events
    assert (event.outcome, event.code, event.reason) == (Outcome.FAILED, -32603, "no match")


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
        (Outcome.FAILED, -32000, "ZeroDivisionError: secret detail")
    ]
    assert bench.log.outcomes == ["failed", "ok"]


async def test_a_call_past_its_deadline_is_stopped_and_recorded(bench, opened):
    hold = Hold()
    dispatch = opened(hold, limits=Limits(call_seconds=0.05))

    with pytest.raises(ToolError, match=r"took longer than 0\.05 seconds") as caught:
        await dispatch(call())

    assert caught.value.retryable
    assert bench.log.outcomes == ["failed"]


async def test_a_call_that_finishes_while_it_is_stopped_has_succeeded(bench, opened):
    def late(arguments, gate):
        gate.cancelled.wait(10)

    dispatch = opened(late, limits=Limits(call_seconds=0.05))

    assert await dispatch(call()) == done("done")
    assert bench.log.outcomes == ["ok"]


async def test_what_only_reads_and_was_told_to_stop_has_not_succeeded(bench, opened):
    def half(arguments, gate):
        hold.entered.set()
        gate.cancelled.wait(10)
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
        gate.cancelled.wait(10)

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
        gate.cancelled.wait(10)
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


# Asking


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

    with pytest.raises(SecurityError, match="The answer was no"):
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
        with pytest.raises(SecurityError, match="too many things"):
            await running
    else:
        await running
    assert len(asked) == 8
    assert bench.log.outcomes == ["denied" if refused else "ok"]


async def test_the_time_somebody_thinks_is_not_the_calls(bench, opened):
    async def slowly(action, decision):
        await asyncio.sleep(0.2)
        return True

    dispatch = opened(touching(WRITE), PermissionMode.DEFAULT, limits=Limits(call_seconds=0.15))

    assert await dispatch(call(arguments={"paths": ["a.txt"]}, ask=slowly)) == done("done")


# Progress


async def test_long_calls_tell_how_they_get_on(bench, opened, monkeypatch):
    monkeypatch.setattr(module, "_PROGRESS_SECONDS", 0.01)
    hold, told = Hold(), []

    async def progress(elapsed, total, message):
        told.append((total, message))
        hold.release.set()

    await opened(hold, limits=Limits(call_seconds=30.0))(call(progress=progress))

    assert told[0] == (30.0, "Probe has been running for 0 s")


async def test_a_caller_who_does_not_take_the_news_does_not_stop_the_clock(bench, opened, monkeypatch):
    monkeypatch.setattr(module, "_PROGRESS_SECONDS", 0.01)

    async def stuck(elapsed, total, message):
        await asyncio.Event().wait()

    with pytest.raises(ToolError, match="took longer"):
        await opened(Hold(), limits=Limits(call_seconds=0.1))(call(progress=stuck))


async def test_a_caller_who_cannot_be_told_ends_the_call_and_its_thread(bench, opened, monkeypatch):
    monkeypatch.setattr(module, "_PROGRESS_SECONDS", 0.01)

    async def gone(elapsed, total, message):
        raise ConnectionError("gone")

    hold = Hold()

    with pytest.raises(SystemFault, match="ConnectionError"):
        await opened(hold)(call(progress=gone))

    assert bench.log.outcomes == ["failed"]


# The log


async def test_a_call_that_cannot_be_recorded_is_answered_with_the_fault(bench, opened):
    dispatch = opened(nothing)
    bench.log.broken = True

    with pytest.raises(SystemFault, match="Probe was carried out, but could not be recorded") as caught:
        await dispatch(call())

    assert caught.value.code == -32000
    assert caught.value.hint == "Free some space."


async def test_nothing_runs_until_the_log_works_again_and_then_all_is_recorded(bench, opened):
    dispatch = opened(nothing)
    bench.log.broken = True
    with pytest.raises(SystemFault):
        await dispatch(call(id="1"))

    for number in "23":
        with pytest.raises(SystemFault, match=r"Probe was not run\. The log cannot be written"):
            await dispatch(call(id=number))
    assert len(bench.ran) == 1

    bench.log.broken = False
    assert await dispatch(call(id="4")) == done("done")
    assert [(event.call, event.outcome.value) for event in bench.log.events] == [
        ("1", "ok"),
        ("2", "failed"),
        ("3", "failed"),
        ("4", "ok"),
    ]


async def test_calls_under_way_when_the_log_fails_are_all_told(bench, opened):
    hold = Hold()
    dispatch = opened(hold)
    tasks = [asyncio.create_task(dispatch(call(id=str(number)))) for number in range(3)]
    await hold.is_running()
    bench.log.broken = True
    hold.release.set()

    answers = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(answer) for answer in answers] == [SystemFault] * 3
    bench.log.broken = False
    await dispatch(call(id="3"))
    assert sorted(event.call for event in bench.log.events) == ["0", "1", "2", "3"]


async def test_refused_calls_are_kept_for_the_log_up_to_a_bound(bench, opened, monkeypatch):
    monkeypatch.setattr("toolyard.app.recording._MOST_REFUSED", 3)
    dispatch = opened(nothing)
    bench.log.broken = True
    for number in range(6):
        with pytest.raises(SystemFault):
            await dispatch(call(id=str(number)))

    bench.log.broken = False
    await dispatch(call(id="last"))

    assert [event.call for event in bench.log.events] == ["0", "1", "2", "last"]


@pytest.mark.parametrize("ending", ["denied", "asked"])
async def test_other_endings_that_cannot_be_recorded_are_faults_too(bench, opened, ending):
    async def later(action, decision):
        raise AnswerPending

    dispatch = opened(touching(WRITE), PermissionMode.DEFAULT)
    bench.log.broken = True

    with pytest.raises(SystemFault, match="could not be recorded"):
        await dispatch(call(arguments={"paths": ["a.txt"]}, ask=later if ending == "asked" else no))


async def test_a_cancellation_that_cannot_be_recorded_is_still_one_and_stops_the_next_call(bench, opened):
    hold = Hold()
    dispatch = opened(hold)
    task = asyncio.create_task(dispatch(call()))
    await hold.is_running()
    bench.log.broken = True

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(SystemFault, match="was not run"):
        await dispatch(call())

    assert len(bench.ran) == 1


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


async def test_hidden_tools_run_but_are_not_listed(bench):
    shown = bench.dispatch(nothing)
    dispatch = Dispatch({}, shown.tools, bench.resources(), bench.log)

    assert await dispatch(call()) == done("done")
    assert dict(dispatch.tools) == {}
    dispatch.close()
    shown.close()
