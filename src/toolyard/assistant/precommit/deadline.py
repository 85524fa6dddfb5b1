"""How long one inspection may take in all. A repository can be made so that looking at it would take for ever."""

from __future__ import annotations

import time
from dataclasses import dataclass

from toolyard.dispatch.call_context import Gate

SECONDS = 60.0


class OutOfTime(Exception):  # noqa: N818 - not an error: what was not looked at is told
    """The inspection took as long as it may."""


@dataclass(frozen=True, slots=True)
class Clock:
    gate: Gate
    until: float
    """By `time.monotonic`."""

    @classmethod
    def started(cls, gate: Gate, seconds: float) -> Clock:
        return cls(gate, time.monotonic() + seconds)

    def left(self) -> float:
        """Seconds; raises OutOfTime where there are none."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise OutOfTime
        return left

    def check(self) -> None:
        """Pass while neither the call nor the inspection is over."""
        self.gate.check_time()
        self.left()
