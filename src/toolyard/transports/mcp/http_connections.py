"""HTTP connections that cannot be held open without use.

Every user of the machine can reach a loopback port, and each connection costs a descriptor. A connection without a
complete request in time is closed, and if there are too many, the oldest idle one is evicted. A keep-alive connection
stays much longer: clients close those after seconds, and if the server closes first, a request sent at that moment is
lost.

Bodies and responses must progress at a minimum rate. If there are too many connections and none is idle, the oldest
one that is still sending its body is evicted.
"""

from __future__ import annotations

import asyncio
import resource
import time
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from toolyard.core.limits import KIB

PATIENCE_SECONDS = 10.0
"""Time for a complete request header. Detection may take twice as long."""
KEEP_ALIVE_SECONDS = 75
"""Time for the next request on a keep-alive connection."""
MIN_BYTES_PER_SECOND = 4 * KIB
"""Minimum rate of a body or a response, after PATIENCE_SECONDS."""
_MAX_CONNECTIONS = 1024


class BoundedHttpProtocol(H11Protocol):
    """uvicorn's protocol with limits on time, rate and number of connections."""

    _last_cycle: object = None
    """The request at the last check."""
    _began = 0.0
    _received = 0
    """Bytes since the last check."""
    _was_receiving = False
    _unsent = 0
    """Unsent response bytes at the last check."""
    _has_sent = False
    """Whether the client has read nearly all of them since."""
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
        """Whether no request is active."""
        return not self.cycle or self.cycle.response_complete

    @property
    def is_receiving(self) -> bool:
        """Whether a body is arriving, and we are not pausing it."""
        return not self.is_idle and self.cycle.more_body and not self.flow.read_paused

    @property
    def _is_kept_alive(self) -> bool:
        """Whether it waits for another request: uvicorn closes it after KEEP_ALIVE_SECONDS."""
        return self.timeout_keep_alive_task is not None and not self.conn.trailing_data[0]

    def _check_progress(self) -> None:
        is_late = self.is_idle and self.cycle is self._last_cycle and not self._is_kept_alive and not self._unsent
        if is_late or self._is_slow():
            self.transport.abort()
            return
        self._last_cycle = self.cycle
        self._check_timer = self.loop.call_later(PATIENCE_SECONDS, self._check_progress)

    def _is_slow(self) -> bool:
        """Whether a body or a response was too slow since the last check. Updates the counters."""
        least = MIN_BYTES_PER_SECOND * PATIENCE_SECONDS
        is_same = self.cycle is self._last_cycle
        receives_slowly = is_same and self._was_receiving and self.is_receiving and self._received < least
        # The buffer size tells how much was sent only while nothing is added.
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
        self.connections.discard(leaves)  # now: connection_lost comes later
        leaves.transport.abort()


def max_connections() -> int:
    """Returns the maximum number of connections. Half of the descriptors are reserved for tools."""
    return min(_MAX_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
