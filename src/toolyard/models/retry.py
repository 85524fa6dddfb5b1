"""Retries of one turn: how long to wait, and when to give up.

Transient failures are retried until the total waiting time would exceed the caller's patience. A waiting time that
the provider asks for is respected. Failures that cost tokens (an answer cut off, or an empty one) are retried a few
times only. A provider that has never answered and cannot be reached is given up soon. Interactive callers also limit
the number of attempts and the total time.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from toolyard.models.messages import DeltasDiscarded, RetryWait, TextDelta, ThinkingDelta

if TYPE_CHECKING:
    from toolyard.models.errors import ProviderFailure
    from toolyard.models.messages import StreamEvent, StreamEventHandler

PATIENCE = 300.0
"""Seconds of waiting in one turn: enough to survive an outage of a minute or two."""
FIRST_CONTACT = 15.0
"""Seconds for a provider that has never answered to become reachable.

That is enough for a server that is starting; a wrong address is reported while the user is still watching.
"""
FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
_MOST_COSTLY = 4
"""Failed attempts of one turn that used output tokens."""


class TurnRetries:
    """The attempts of one turn. `is_known` says whether the model has answered before."""

    def __init__(
        self,
        on_event: StreamEventHandler,
        patience: float,
        first_pause: float,
        *,
        is_known: bool,
        most_tries: int | None = None,
        seconds: float | None = None,
    ) -> None:
        self._on_event = on_event
        self._patience_left = patience
        self._tries_left = most_tries
        self._deadline = None if seconds is None else _now() + seconds
        self._is_known = is_known
        self._unreachable_since: float | None = None
        self._pause = first_pause
        self._costly_failures = 0
        self._has_emitted = False
        self._has_retried_immediately = False

    def emit(self, event: StreamEvent) -> None:
        """Passes an event on to the handler."""
        if isinstance(event, (TextDelta, ThinkingDelta)):
            self._has_emitted = True
        self._on_event(event)

    def discard_deltas(self) -> None:
        """Tells the handler that the deltas so far are void, if there were any."""
        if self._has_emitted:
            self._has_emitted = False
            self._on_event(DeltasDiscarded())

    def count_attempt(self, failure: ProviderFailure) -> None:
        """Counts an attempt. Raises the failure's error if it was the last one."""
        if self._tries_left is not None:
            self._tries_left -= 1
        if self._tries_left == 0:
            raise failure.error

    async def wait_to_retry(self, failure: ProviderFailure, *, is_costly: bool = False) -> None:
        """Waits until the next attempt. Raises the failure's error if there is none."""
        self._costly_failures += is_costly or self._has_emitted
        pause = self._pause * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, so that agents do not retry at the same time
        if failure.retry_after == 0 and not self._has_retried_immediately:
            pause, self._has_retried_immediately = (
                0.0,
                True,
            )  # respected once: otherwise such a server would be asked forever
        elif failure.retry_after is not None:
            pause = max(pause, failure.retry_after)
        self.count_attempt(failure)
        if not failure.is_transient or self._costly_failures > _MOST_COSTLY or pause > self._seconds_left(failure):
            raise failure.error
        self.discard_deltas()
        self._patience_left -= pause
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        self._on_event(RetryWait(pause, failure.reason))
        await asyncio.sleep(pause)

    def _seconds_left(self, failure: ProviderFailure) -> float:
        """Returns how long the next wait may be after this failure."""
        left = self._patience_left if self._deadline is None else min(self._patience_left, self._deadline - _now())
        if not failure.is_unreachable:
            self._is_known = True  # the server has answered
        if self._is_known:
            return left
        now = _now()  # attempts count too: a failing name lookup may take long
        if self._unreachable_since is None:
            self._unreachable_since = now
        return min(left, FIRST_CONTACT - (now - self._unreachable_since))


def _now() -> float:
    return asyncio.get_running_loop().time()
