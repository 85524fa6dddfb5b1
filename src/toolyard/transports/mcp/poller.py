"""Polls periodically on the event loop, and passes findings to listeners.

A Poller owns one task, from `start()` until `close()` or the end of the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

_NOTIFY_SECONDS = 5.0
"""A listener that takes longer is cancelled."""

T = TypeVar("T")


class Poller(Generic[T]):
    """Polls something, and notifies listeners."""

    def __init__(self, poll: Callable[[], Awaitable[T | None]], every_seconds: float) -> None:
        """`poll` returns a finding, or None."""
        self._poll = poll
        self._every_seconds = every_seconds
        self._listeners: list[Callable[[T], Awaitable[None]]] = []
        self._task: asyncio.Task[None] | None = None

    def add_listener(self, listener: Callable[[T], Awaitable[None]]) -> None:
        self._listeners.append(listener)

    def start(self) -> None:
        """Starts polling on the running loop; further calls do nothing."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._poll_forever())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _poll_forever(self) -> None:
        while True:
            await asyncio.sleep(self._every_seconds)
            finding = await self._poll()
            if finding is None:
                continue
            for listener in self._listeners:
                # A client that is gone or does not read must not block the others.
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(_NOTIFY_SECONDS):
                        await listener(finding)
