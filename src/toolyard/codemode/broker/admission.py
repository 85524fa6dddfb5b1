"""What one agent has under way on its broker, over all of its connections.

A request is admitted before it is read: its place among the calls and its bytes are taken then, and given back when
it was answered. One that finds no room waits its turn, and its connection is not read meanwhile. So whatever an agent
sends, the host holds a bounded part of it, and nobody else waits for it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from toolyard.core.json_size import MAX_JSON_PARTS
from toolyard.core.limits import KIB, MIB


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    frame_bytes: int = 64 * MIB
    """The longest request and the longest answer."""
    connections: int = 256
    calls_per_connection: int = 256
    calls: int = 1_024
    """Of one agent, at one moment."""
    request_bytes: int = 256 * MIB
    """Of all its requests that are being read or answered; no less than one frame."""
    parts: int = MAX_JSON_PARTS
    """Of one request, as `core.json_parts` counts them. In memory they are many times as large as in a frame."""
    unread_bytes: int = 512 * MIB
    """Of all its answers that it has not read yet."""
    buffered_bytes: int = 1 * MIB
    """Of one connection's unread answers before no more of its requests are taken."""
    stall_seconds: float = 120.0
    """How long half a frame, or an answer nobody reads, may stand still."""


DEFAULT_BROKER_LIMITS = BrokerLimits()
BUFFER_BYTES = 256 * KIB
"""Read at once."""


class AdmissionWaiter(Protocol):
    @property
    def needed_bytes(self) -> int:
        """The bytes of the request that waits."""
        ...

    def on_admitted(self) -> None: ...


class AdmissionControl:
    def __init__(self, limits: BrokerLimits) -> None:
        self._limits = limits
        self._calls = 0
        self._bytes = 0
        self._waiting: deque[AdmissionWaiter] = deque()

    @property
    def is_idle(self) -> bool:
        return not self._calls and not self._bytes and not self._waiting

    def admit(self, waiter: AdmissionWaiter) -> bool:
        """Take what a request needs; False when it has to wait for `on_admitted`."""
        if not self._waiting and self._has_room(waiter.needed_bytes):
            self._reserve(waiter.needed_bytes)
            return True
        self._waiting.append(waiter)
        return False

    def charge_bytes(self, size: int) -> bool:
        """Take more bytes for a request that was admitted; False when others leave no room for them."""
        if self._calls > 1 and self._bytes + size > self._limits.request_bytes:
            return False
        self._bytes += size
        return True

    def release(self, size: int) -> None:
        self._calls -= 1
        self._bytes -= size
        self._admit_waiting()

    def cancel_waiting(self, waiter: AdmissionWaiter) -> None:
        """Wait no longer."""
        if waiter in self._waiting:
            self._waiting.remove(waiter)
            self._admit_waiting()

    def _has_room(self, size: int) -> bool:
        return self._calls < self._limits.calls and self._bytes + size <= self._limits.request_bytes

    def _reserve(self, size: int) -> None:
        self._calls += 1
        self._bytes += size

    def _admit_waiting(self) -> None:
        while self._waiting and self._has_room(self._waiting[0].needed_bytes):
            who = self._waiting.popleft()
            self._reserve(who.needed_bytes)
            who.on_admitted()
