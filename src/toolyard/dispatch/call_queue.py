"""Waiting: for a call that runs, and in line for one that has to come first. Callers hear of it once a second.

`CallQueues` are of one event loop. A line that nobody stands in any more is forgotten.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

from toolyard.dispatch.call_context import CallContext

_PROGRESS_SECONDS = 1.0


async def wait_with_progress(running: asyncio.Future[Any], name: str, ctx: CallContext) -> bool:
    """Wait, telling the caller once a second that it goes on. False when the time of the call was up first."""
    started, seconds = time.monotonic(), ctx.timeout_seconds
    while True:
        left = seconds - (time.monotonic() - started)
        done, _ = await asyncio.wait({running}, timeout=min(_PROGRESS_SECONDS, max(left, 0)))
        if done or left <= 0:
            return bool(done)
        elapsed = time.monotonic() - started
        with contextlib.suppress(TimeoutError):  # who does not read the news does not stop the clock
            async with asyncio.timeout(max(seconds - elapsed, 0)):
                doing = f": {ctx.status}" if ctx.status else ""
                await ctx.call.progress(elapsed, seconds, f"{name} has been running for {elapsed:.0f} s{doing}")


@dataclass(slots=True, eq=False)
class _CallQueue:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # which lets those who wait in as they came
    waiters: int = 0


class CallQueues:
    def __init__(self) -> None:
        self._queues: dict[str, _CallQueue] = {}

    @contextlib.asynccontextmanager
    async def hold_turn(self, queue_name: str, name: str, ctx: CallContext) -> AsyncGenerator[None]:
        """Be the one whose turn it is in a line. Raises when time is up first."""
        place = self._queues.setdefault(queue_name, _CallQueue())
        place.waiters += 1
        try:
            await _acquire(place, name, ctx)
            try:
                yield
            finally:
                place.lock.release()
        finally:
            place.waiters -= 1
            if not place.waiters:
                del self._queues[queue_name]


async def _acquire(queue: _CallQueue, name: str, ctx: CallContext) -> None:
    if queue.waiters == 1:  # nobody else is there, nor about to have it
        await queue.lock.acquire()
        return
    ctx.status = "waiting for an earlier call"
    taking = asyncio.ensure_future(queue.lock.acquire())
    try:
        if not await wait_with_progress(taking, name, ctx):
            raise ctx.timeout_error()
    except BaseException:
        if taking.done() and not taking.cancelled():
            queue.lock.release()
        taking.cancel()
        raise
