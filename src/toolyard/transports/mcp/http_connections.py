"""Connections of the HTTP server that nobody can hold for nothing.

Every user of the machine reaches a port of the loopback, and each connection costs this process a descriptor. One
that sends no whole request in time is closed, and where there are too many, the oldest of those makes room. One that
was used and is kept for the next request stays much longer: clients let such connections go after seconds, and one
that the server closes first may be closed in the moment in which a request is sent on it, which is then lost.

A body has to come, and an answer has to be taken, at a small rate at least. Where there are too many connections and
none is idle, the oldest of those whose body is still on its way makes room.
"""

from __future__ import annotations

import asyncio
import resource
import time
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from toolyard.core.limits import KIB

PATIENCE_SECONDS = 10.0
"""For a request to come, header and all. It may take twice as long until that is noticed."""
KEEP_ALIVE_SECONDS = 75
"""For the next request on a connection that had one."""
MIN_BYTES_PER_SECOND = 4 * KIB
"""A second, of a body that comes or an answer that is taken, once that has gone on for PATIENCE_SECONDS."""
_MAX_CONNECTIONS = 1024


class BoundedHttpProtocol(H11Protocol):
    _last_cycle: object = None
    """The request that was under way, or over, when we last looked."""
    _began = 0.0
    _received = 0
    """Bytes since we last looked."""
    _was_receiving = False
    _unsent = 0
    """Bytes of an answer that were waiting for the client when we last looked."""
    _has_sent = False
    """Whether the client has taken nearly all of what was waiting since then."""
    _check_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._began = time.monotonic()
        self._evict_oldest()
        self._check_timer = self.loop.call_later(PATIENCE_SECONDS, self._check_progress)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._check_timer is not None:
            self._check_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)

    def resume_writing(self) -> None:
        self._has_sent = True
        super().resume_writing()

    @property
    def is_idle(self) -> bool:
        """No request is under way."""
        return not self.cycle or self.cycle.response_complete

    @property
    def is_receiving(self) -> bool:
        """The body of a request is on its way, and not held up by us."""
        return not self.is_idle and self.cycle.more_body and not self.flow.read_paused

    @property
    def _is_kept_alive(self) -> bool:
        """It had a request and nothing of another has come: the server closes it by itself after KEPT_SECONDS."""
        return self.timeout_keep_alive_task is not None and not self.conn.trailing_data[0]

    def _check_progress(self) -> None:
        is_late = self.is_idle and self.cycle is self._last_cycle and not self._is_kept_alive and not self._unsent
        if is_late or self._is_slow():
            self.transport.abort()
            return
        self._last_cycle = self.cycle
        self._check_timer = self.loop.call_later(PATIENCE_SECONDS, self._check_progress)

    def _is_slow(self) -> bool:
        """Whether too little of a body came, or of an answer was taken, between two looks. Notes where things are."""
        least = MIN_BYTES_PER_SECOND * PATIENCE_SECONDS
        is_same = self.cycle is self._last_cycle
        receives_slowly = is_same and self._was_receiving and self.is_receiving and self._received < least
        # Only while nothing is added to it does the size of the buffer say how much was taken.
        is_full = self.flow.write_paused or self.is_idle or self.transport.is_closing()
        unsent = self.transport.get_write_buffer_size() if is_full else 0
        sends_slowly = is_same and not self._has_sent and unsent > max(0, self._unsent - least) and self._unsent > 0
        self._received, self._was_receiving = 0, self.is_receiving
        self._unsent, self._has_sent = unsent, False
        return receives_slowly or sends_slowly

    def _evict_oldest(self) -> None:
        if len(self.connections) <= max_connections():
            return
        others = [cast("BoundedHttpProtocol", each) for each in self.connections if each is not self]
        candidates = [each for each in others if each.is_idle] or [each for each in others if each.is_receiving]
        leaves = min(candidates, key=lambda each: each._began, default=self)  # noqa: SLF001 - one of ours
        self.connections.discard(leaves)  # at once: it is told of its end only later
        leaves.transport.abort()


def max_connections() -> int:
    """Connections at once. Half of the descriptors are for the work itself."""
    return min(_MAX_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
