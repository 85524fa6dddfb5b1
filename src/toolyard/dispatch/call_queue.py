"""Waiting: for a call that runs, and in line for one that has to come first. Callers hear of it once a second.

`Lines` are of one event loop. A line that nobody stands in any more is forgotten.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

from toolyard.dispatch.call_context import Gate

_PROGRESS_SECONDS = 1.0


async def waited(running: asyncio.Future[Any], name: str, gate: Gate) -> bool:
    """Wait, telling the caller once a second that it goes on. False when the time of the call was up first."""
    started, seconds = time.monotonic(), gate.seconds
    while True:
        left = seconds - (time.monotonic() - started)
        done, _ = await asyncio.wait({running}, timeout=min(_PROGRESS_SECONDS, max(left, 0)))
        if done or left <= 0:
            return bool(done)
        elapsed = time.monotonic() - started
        with contextlib.suppress(TimeoutError):  # who does not read the news does not stop the clock
            async with asyncio.timeout(max(seconds - elapsed, 0)):
                doing = f": {gate.doing}" if gate.doing else ""
                await gate.call.progress(elapsed, seconds, f"{name} has been running for {elapsed:.0f} s{doing}")


@dataclass(slots=True, eq=False)
class _Line:
    free: asyncio.Lock = field(default_factory=asyncio.Lock)  # which lets those who wait in as they came
    standing: int = 0


class Lines:
    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}

    @contextlib.asynccontextmanager
    async def turn(self, line: str, name: str, gate: Gate) -> AsyncGenerator[None]:
        """Be the one whose turn it is in a line. Raises when time is up first."""
        place = self._lines.setdefault(line, _Line())
        place.standing += 1
        try:
            await _taken(place, name, gate)
            try:
                yield
            finally:
                place.free.release()
        finally:
            place.standing -= 1
            if not place.standing:
                del self._lines[line]


async def _taken(place: _Line, name: str, gate: Gate) -> None:
    if place.standing == 1:  # nobody else is there, nor about to have it
        await place.free.acquire()
        return
    gate.doing = "waiting for an earlier call"
    taking = asyncio.ensure_future(place.free.acquire())
    try:
        if not await waited(taking, name, gate):
            raise gate.overdue()
    except BaseException:
        if taking.done() and not taking.cancelled():
            place.free.release()
        taking.cancel()
        raise
