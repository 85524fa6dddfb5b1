"""How long one inspection may take in all. A repository can be made so that looking at it would take for ever."""

from __future__ import annotations

import time
from dataclasses import dataclass

from toolyard.dispatch.call_context import CallContext

INSPECTION_SECONDS = 60.0


class OutOfTime(Exception):  # noqa: N818 - not an error: what was not looked at is told
    """The inspection took as long as it may."""


@dataclass(frozen=True, slots=True)
class Deadline:
    ctx: CallContext
    until: float
    """By `time.monotonic`."""

    @classmethod
    def after(cls, ctx: CallContext, seconds: float) -> Deadline:
        return cls(ctx, time.monotonic() + seconds)

    def seconds_left(self) -> float:
        """Seconds; raises OutOfTime where there are none."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise OutOfTime
        return left

    def check(self) -> None:
        """Pass while neither the call nor the inspection is over."""
        self.ctx.check_time()
        self.seconds_left()
