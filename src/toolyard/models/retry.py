"""Trying again, in one place: how long to wait, and when to give up.

What passes with time is tried again until the waits together would be longer than the caller's patience. A provider
that says how long to wait is believed. Some failures cost tokens each time (an answer cut in the middle, or an empty
one): those are tried again a few times only. A provider that never answered and cannot be reached is soon given up.
Who waits for an answer themselves says how many tries there are at most, and how long all of it may take.
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
"""Seconds of waiting in one turn: a provider that is down for a minute or two is outlasted."""
FIRST_CONTACT = 15.0
"""Seconds for a provider that never answered to become reachable. A server that is just starting gets there; one that
is not there, or at another address, is a mistake of which its maker wants to hear while still looking."""
FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
_MOST_COSTLY = 4
"""Answers that came to nothing but were paid for."""


class TurnRetries:
    """The tries of one turn, of a model that `is_known` to answer or not."""

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
        if isinstance(event, (TextDelta, ThinkingDelta)):
            self._has_emitted = True
        self._on_event(event)

    def discard_deltas(self) -> None:
        if self._has_emitted:
            self._has_emitted = False
            self._on_event(DeltasDiscarded())

    def count_attempt(self, failure: ProviderFailure) -> None:
        """Count a try. Raises the failure's error where it was the last."""
        if self._tries_left is not None:
            self._tries_left -= 1
        if self._tries_left == 0:
            raise failure.error

    async def wait_to_retry(self, failure: ProviderFailure, *, is_costly: bool = False) -> None:
        """Wait for the next try. Raises the failure's error where there is none."""
        self._costly_failures += is_costly or self._has_emitted
        pause = self._pause * random.uniform(0.5, 1.0)  # noqa: S311 - so that many agents do not come back at once
        if failure.retry_after == 0 and not self._has_retried_immediately:
            pause, self._has_retried_immediately = (
                0.0,
                True,
            )  # believed once: who always says so would be asked for ever
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
        left = self._patience_left if self._deadline is None else min(self._patience_left, self._deadline - _now())
        if not failure.is_unreachable:
            self._is_known = True  # somebody is there
        if self._is_known:
            return left
        now = _now()  # the tries count too: a name may take long not to be found
        if self._unreachable_since is None:
            self._unreachable_since = now
        return min(left, FIRST_CONTACT - (now - self._unreachable_since))


def _now() -> float:
    return asyncio.get_running_loop().time()
