from __future__ import annotations

import asyncio

from toolyard.core.eager_call import EagerCall, InlineFuture, switch_to_task


class Watched:
    """A coroutine that notes what it sees, and how it ended."""

    def __init__(self, body):
        self.seen: list[object] = []
        self.ends: list[BaseException | None] = []
        self.call = EagerCall(self._run(body), asyncio.get_running_loop(), self.ends.append)

    async def _run(self, body):
        try:
            self.seen.append(await body)
        except BaseException as fault:
            self.seen.append(type(fault))
            raise
        finally:
            self.seen.append("cleaned up")


async def waiting_for(future):
    return await future


def reply():
    return InlineFuture(loop=asyncio.get_running_loop())


async def turns_of_the_loop(count: int = 3):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_it_runs_at_once_and_goes_on_at_once_when_the_reply_is_set():
    answer = reply()
    watched = Watched(waiting_for(answer))
    watched.call.start()
    assert (watched.seen, watched.ends) == ([], [])
    answer.set_result(5)
    assert (watched.seen, watched.ends, watched.call.task) == ([5, "cleaned up"], [None], None)


async def test_it_may_be_done_before_it_waits():
    async def nothing():
        return 1

    watched = Watched(nothing())
    watched.call.start()
    assert (watched.seen, watched.ends) == ([1, "cleaned up"], [None])


async def test_a_failed_reply_is_raised_where_it_is_awaited_and_handed_on():
    answer = reply()
    watched = Watched(waiting_for(answer))
    watched.call.start()
    answer.set_exception(ValueError("no"))
    assert watched.seen == [ValueError, "cleaned up"]
    assert [str(end) for end in watched.ends] == ["no"]


async def test_cancelling_one_that_waits_ends_it_at_once():
    answer = reply()
    watched = Watched(waiting_for(answer))
    watched.call.start()
    watched.call.cancel()
    assert watched.seen == [asyncio.CancelledError, "cleaned up"]
    assert [type(end) for end in watched.ends] == [asyncio.CancelledError]
    answer.set_result(5)  # too late, and nobody is told
    assert len(watched.ends) == 1


async def test_what_waits_for_anything_else_goes_on_as_a_task():
    plain = asyncio.get_running_loop().create_future()
    watched = Watched(waiting_for(plain))
    watched.call.start()
    assert watched.call.task is not None
    await turns_of_the_loop()
    plain.set_result("plain")
    await watched.call.task
    await turns_of_the_loop()
    assert (watched.seen, watched.ends) == (["plain", "cleaned up"], [None])


async def test_one_that_went_on_as_a_task_can_await_replies_and_use_what_needs_a_task():
    answer = reply()

    async def body():
        await switch_to_task()
        async with asyncio.timeout(30):
            return await answer

    watched = Watched(body())
    watched.call.start()
    await turns_of_the_loop()
    answer.set_result("late")
    assert watched.call.task is not None
    await watched.call.task
    await turns_of_the_loop()
    assert (watched.seen, watched.ends) == (["late", "cleaned up"], [None])


async def test_a_task_that_is_cancelled_before_it_begins_still_cleans_up():
    watched = Watched(switch_to_task())
    watched.call.start()
    watched.call.cancel()
    await turns_of_the_loop()
    assert watched.seen == [asyncio.CancelledError, "cleaned up"]
    assert [type(end) for end in watched.ends] == [asyncio.CancelledError]


async def test_a_task_that_is_cancelled_later_sees_it_where_it_waits():
    watched = Watched(waiting_for(asyncio.get_running_loop().create_future()))
    watched.call.start()
    await turns_of_the_loop()
    watched.call.cancel()
    await turns_of_the_loop()
    assert watched.seen == [asyncio.CancelledError, "cleaned up"]
    assert [type(end) for end in watched.ends] == [asyncio.CancelledError]


async def test_it_can_be_a_task_from_the_start():
    answer = reply()
    watched = Watched(waiting_for(answer))
    watched.call.start(as_task=True)
    answer.set_result(1)
    await turns_of_the_loop()
    assert (watched.seen, watched.ends) == ([1, "cleaned up"], [None])


async def test_a_reply_is_a_future_to_everybody_else():
    answer = reply()
    waiting = asyncio.ensure_future(waiting_for(answer))
    await turns_of_the_loop()
    answer.set_result("told")
    assert await waiting == "told"
