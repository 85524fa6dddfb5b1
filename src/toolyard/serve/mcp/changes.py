"""Telling clients that another agent has published: a look a second, on the event loop, and whoever listens is told.

A Changes owns one task, from `start()` until `close()` or the end of the loop. A look costs a few microseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from toolyard.app.sharing.sharing import Sharing
from toolyard.core.paths import beneath
from toolyard.fs.faults import shown
from toolyard.workspace.sharing.notes import Step
from toolyard.workspace.sharing.peers import Following

_EVERY_SECONDS = 1.0
_TELLING_SECONDS = 5.0
"""Who does not read is not waited for any longer."""


@dataclass(frozen=True, slots=True)
class Changed:
    """What one peer has published."""

    place: str
    """The folder in which its files are seen."""
    step: Step

    def covers(self, path: str) -> bool:
        """Whether a file may have changed."""
        inside = beneath(path, self.place)
        if inside is None:
            return False
        step = self.step
        # A step spells names as they are shown.
        return step.total is None or step.total > len(step.paths) or inside == "." or shown(inside) in step.paths


Listener = Callable[[list[Changed]], Awaitable[None]]


class Changes:
    def __init__(self, sharing: Sharing) -> None:
        self._peers = sharing.peers
        self._following = Following(self._peers)
        self._listeners: list[Listener] = []
        self._task: asyncio.Task[None] | None = None

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def start(self) -> None:
        """Watch from now on, in the running loop. Once is enough."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._watch())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            changed = [Changed(self._peers.place(agent), step) for agent, step in self._following.steps()]
            for listener in self._listeners if changed else ():
                # A client that has gone, or does not read, keeps nobody else from being told.
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(_TELLING_SECONDS):
                        await listener(changed)
