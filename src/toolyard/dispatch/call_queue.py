"""Queues of calls that must run one after another, and waiting with progress messages once a second.

`CallQueues` belongs to one event loop. A queue without waiters is removed.
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
    """Waits for `running` and reports progress once a second. Returns False if the call's time ran out first."""
    started, seconds = time.monotonic(), ctx.budget.seconds
    while True:
        left = seconds - (time.monotonic() - started)
        done, _ = await asyncio.wait({running}, timeout=min(_PROGRESS_SECONDS, max(left, 0)))
        if done or left <= 0:
            return bool(done)
        elapsed = time.monotonic() - started
        with contextlib.suppress(TimeoutError):  # a caller that does not read progress must not stop the clock
            async with asyncio.timeout(max(seconds - elapsed, 0)):
                status = f": {ctx.notes.status}" if ctx.notes.status else ""
                await ctx.call.progress(elapsed, seconds, f"{name} has been running for {elapsed:.0f} s{status}")


@dataclass(slots=True, eq=False)
class _CallQueue:
    """One named queue."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Fair: waiters get it in the order of their arrival."""
    waiters: int = 0


class CallQueues:
    """The queues of one event loop, by name."""

    def __init__(self) -> None:
        self._queues: dict[str, _CallQueue] = {}

    @contextlib.asynccontextmanager
    async def hold_turn(self, queue_name: str, name: str, ctx: CallContext) -> AsyncGenerator[None]:
        """Holds the turn in a queue while the block runs. Raises ToolError if the call's time runs out first."""
        queue = self._queues.setdefault(queue_name, _CallQueue())
        queue.waiters += 1
        try:
            await _acquire(queue, name, ctx)
            try:
                yield
            finally:
                queue.lock.release()
        finally:
            queue.waiters -= 1
            if not queue.waiters:
                del self._queues[queue_name]


async def _acquire(queue: _CallQueue, name: str, ctx: CallContext) -> None:
    if queue.waiters == 1:  # no other call holds the lock or waits for it
        await queue.lock.acquire()
        return
    ctx.notes.status = "waiting for an earlier call"
    taking = asyncio.ensure_future(queue.lock.acquire())
    try:
        if not await wait_with_progress(taking, name, ctx):
            raise ctx.budget.timeout_error()
    except BaseException:
        if taking.done() and not taking.cancelled():
            queue.lock.release()
        taking.cancel()
        raise
