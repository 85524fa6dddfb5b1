"""How many local servers run at once: a server that is started takes a slot, and idle ones make room.

`ServerSlots` live on one loop and own nothing. Where every slot is taken, the server that was idle for longest is
ended. Where none is idle, the start waits until a call ends, for as long as a start may take, and then fails.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from toolyard.config.models import ToolyardSection
from toolyard.mcp_client.errors import ServerUnavailable

MAX_RUNNING = ToolyardSection().max_running_servers
_CONFIG_KEY = "toolyard.max_running_servers"


class SlotHolder(Protocol):
    """A server that has a slot or wants one."""

    name: str

    @property
    def idle_since(self) -> float | None:
        """The moment of its last call; None while it starts or a call is under way."""
        ...

    async def end(self) -> None:
        """End it, and return when it is gone. The next call starts it again."""
        ...


class ServerSlots:
    def __init__(self, limit: int = MAX_RUNNING) -> None:
        self._limit = limit
        self._holders: set[SlotHolder] = set()
        self._waiting: set[asyncio.Future[None]] = set()

    async def acquire(self, server: SlotHolder, seconds: float) -> None:
        """Take a slot for a server that is about to be started. Raises ServerUnavailable after `seconds`."""
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
        self._holders.discard(server)
        self.notify_waiters()

    def notify_waiters(self) -> None:
        """A call has ended or a slot is free: those that wait look whether there is room now."""
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
