"""Limits how many local servers run at once.

`ServerSlots` lives on one loop and owns nothing. If all slots are taken, the server that has been idle longest is
stopped. If none is idle, the start waits for a call to end, and fails after the start timeout.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from toolyard.config.models import ToolyardSection
from toolyard.mcp_client.errors import ServerUnavailable

MAX_RUNNING = ToolyardSection().max_running_servers
_CONFIG_KEY = "toolyard.max_running_servers"


class SlotHolder(Protocol):
    """A server that has a slot or needs one."""

    name: str

    @property
    def idle_since(self) -> float | None:
        """Time of its last call; None while it starts or a call is in flight."""
        ...

    async def end(self) -> None:
        """Stops it and waits for it. The next call starts it again."""
        ...


class ServerSlots:
    """The slots for running local servers."""

    def __init__(self, limit: int = MAX_RUNNING) -> None:
        self._limit = limit
        self._holders: set[SlotHolder] = set()
        self._waiting: set[asyncio.Future[None]] = set()

    async def acquire(self, server: SlotHolder, seconds: float) -> None:
        """Acquires a slot for a server that is about to start. Raises ServerUnavailable after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while len(self._holders) >= self._limit:
                    await self._make_room()
        except TimeoutError:
            raise ServerUnavailable(
                server.name,
                f"cannot be started: {self._limit} servers run already, and all of them are busy",
                hint=f"Try again when calls have ended, or raise `{_CONFIG_KEY}` in the configuration.",
            ) from None
        self._holders.add(server)

    def release(self, server: SlotHolder) -> None:
        """Releases the slot of a server."""
        self._holders.discard(server)
        self.notify_waiters()

    def notify_waiters(self) -> None:
        """Wakes waiting starts: a call has ended or a slot is free."""
        for each in self._waiting:
            if not each.done():
                each.set_result(None)

    async def _make_room(self) -> None:
        idle = [(since, holder) for holder in self._holders if (since := holder.idle_since) is not None]
        if idle:
            await min(idle, key=lambda each: each[0])[1].end()
            return
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(change)
        try:
            await change
        finally:
            self._waiting.discard(change)
