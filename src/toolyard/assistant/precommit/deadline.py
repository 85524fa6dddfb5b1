"""The time limit of an inspection: a repository can be crafted so that reading it would take forever."""

from __future__ import annotations

import time
from dataclasses import dataclass

from toolyard.dispatch.call_context import CallContext

INSPECTION_SECONDS = 60.0


class OutOfTime(Exception):  # noqa: N818 - not an error: the report names what was skipped
    """The inspection reached its time limit."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """The end of an inspection, and the call that it belongs to."""

    ctx: CallContext
    until: float
    """By `time.monotonic`."""

    @classmethod
    def after(cls, ctx: CallContext, seconds: float) -> Deadline:
        """Returns the deadline that ends in `seconds`."""
        return cls(ctx, time.monotonic() + seconds)

    def seconds_left(self) -> float:
        """Returns the remaining seconds. Raises OutOfTime if there are none."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise OutOfTime
        return left

    def check(self) -> None:
        """Raises if the call was cancelled or timed out, or if the inspection's time is up."""
        self.ctx.check_time()
        self.seconds_left()
