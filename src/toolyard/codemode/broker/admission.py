"""Limits what one agent has in progress on its broker, over all of its connections.

A request is admitted before it is read: its slot and its bytes are reserved, and released once it is answered. A
request that does not fit waits, and its connection is not read meanwhile. The host thus holds a bounded amount of
data per agent, and one agent cannot delay others.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from toolyard.core.json_size import MAX_JSON_PARTS
from toolyard.core.limits import KIB, MIB


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """Limits of one agent's broker."""

    frame_bytes: int = 64 * MIB
    """The longest request and the longest answer."""
    connections: int = 256
    calls_per_connection: int = 256
    calls: int = 1_024
    """Concurrent calls of one agent."""
    request_bytes: int = 256 * MIB
    """Bytes of all requests that are being read or answered; at least one frame."""
    parts: int = MAX_JSON_PARTS
    """Parts of one request, as `core.json_size` counts them. In memory they are much larger than in a frame."""
    unread_bytes: int = 512 * MIB
    """Bytes of all answers that the agent has not read yet."""
    buffered_bytes: int = 1 * MIB
    """Unread bytes of one connection at which its requests are no longer read."""
    stall_seconds: float = 120.0
    """How long a partial frame or an unread answer may make no progress."""


DEFAULT_BROKER_LIMITS = BrokerLimits()
BUFFER_BYTES = 256 * KIB
"""The size of one read."""


class AdmissionWaiter(Protocol):
    """A connection whose next request waits for admission."""

    @property
    def needed_bytes(self) -> int:
        """The bytes of the waiting request."""
        ...

    def on_admitted(self) -> None: ...


class AdmissionControl:
    """Counts the calls and bytes of one agent."""

    def __init__(self, limits: BrokerLimits) -> None:
        self._limits = limits
        self._calls = 0
        self._bytes = 0
        self._waiting: deque[AdmissionWaiter] = deque()

    @property
    def is_idle(self) -> bool:
        return not self._calls and not self._bytes and not self._waiting

    def admit(self, waiter: AdmissionWaiter) -> bool:
        """Reserves what a request needs. Returns False if it has to wait for `on_admitted`."""
        if not self._waiting and self._has_room(waiter.needed_bytes):
            self._reserve(waiter.needed_bytes)
            return True
        self._waiting.append(waiter)
        return False

    def charge_bytes(self, size: int) -> bool:
        """Reserves more bytes for an admitted request. Returns False if other requests leave no room."""
        if self._calls > 1 and self._bytes + size > self._limits.request_bytes:
            return False
        self._bytes += size
        return True

    def release(self, size: int) -> None:
        """Releases an answered request and admits waiting ones."""
        self._calls -= 1
        self._bytes -= size
        self._admit_waiting()

    def cancel_waiting(self, waiter: AdmissionWaiter) -> None:
        """Removes a waiter from the queue."""
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
