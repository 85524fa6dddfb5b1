"""Nothing runs unrecorded: a log that fails stops the yard until it works again."""

import asyncio

import pytest

from tests.support.dispatch_probe import Hold, call, done, touching
from toolyard.core.actions import Kind
from toolyard.core.calls import AnswerPending
from toolyard.core.errors import SystemFault
from toolyard.core.permission_modes import PermissionMode

READ, WRITE = Kind.READ, Kind.WRITE


async def no(action, decision):
    return False


def nothing(arguments, gate):
    return None


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
    monkeypatch.setattr("toolyard.storage.audit_log._MOST_REFUSED", 3)
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
