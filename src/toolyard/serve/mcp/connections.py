"""Connections of the HTTP server that nobody can hold for nothing.

Every user of the machine reaches a port of the loopback, and each connection costs this process a descriptor. One
that sends no whole request in time is closed, and where there are too many, the oldest of those makes room. One that
was used and is kept for the next request stays much longer: clients let such connections go after seconds, and one
that the server closes first may be closed in the moment in which a request is sent on it, which is then lost.
"""

from __future__ import annotations

import asyncio
import resource
import time
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE_SECONDS = 10.0
"""For a request to come, header and all. It may take twice as long until that is noticed."""
KEPT_SECONDS = 75
"""For the next request on a connection that had one."""
_MOST = 1024


class Connection(H11Protocol):
    _seen: object = None
    """The request that was under way, or over, when we last looked."""
    _began = 0.0
    _looking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._began = time.monotonic()
        self._make_room()
        self._looking = self.loop.call_later(PATIENCE_SECONDS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._looking is not None:
            self._looking.cancel()
        super().connection_lost(exc)

    @property
    def is_idle(self) -> bool:
        """No request is under way."""
        return not self.cycle or self.cycle.response_complete

    @property
    def _is_kept(self) -> bool:
        """It had a request and nothing of another has come: the server closes it by itself after KEPT_SECONDS."""
        return self.timeout_keep_alive_task is not None and not self.conn.trailing_data[0]

    def _look(self) -> None:
        if self.is_idle and self.cycle is self._seen and not self._is_kept:
            self.transport.abort()
            return
        self._seen = self.cycle
        self._looking = self.loop.call_later(PATIENCE_SECONDS, self._look)

    def _make_room(self) -> None:
        if len(self.connections) <= most():
            return
        others = [cast("Connection", each) for each in self.connections if each is not self]
        idle = [each for each in others if each.is_idle]
        leaves = min(idle, key=lambda each: each._began) if idle else self  # noqa: SLF001 - one of ours
        self.connections.discard(leaves)  # at once: it is told of its end only later
        leaves.transport.abort()


def most() -> int:
    """Connections at once. Half of the descriptors are for the work itself."""
    return min(_MOST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
