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

from toolyard.models.messages import Said, TakenBack, Thought, Waiting

if TYPE_CHECKING:
    from toolyard.models.errors import Failure
    from toolyard.models.messages import Hear, Heard

PATIENCE = 300.0
"""Seconds of waiting in one turn: a provider that is down for a minute or two is outlasted."""
FIRST_CONTACT = 15.0
"""Seconds for a provider that never answered to become reachable. A server that is just starting gets there; one that
is not there, or at another address, is a mistake of which its maker wants to hear while still looking."""
FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
_MOST_COSTLY = 4
"""Answers that came to nothing but were paid for."""


class Trying:
    """The tries of one turn, of a model that `is_known` to answer or not."""

    def __init__(
        self,
        hear: Hear,
        patience: float,
        first_pause: float,
        *,
        is_known: bool,
        most_tries: int | None = None,
        within: float | None = None,
    ) -> None:
        self._hear = hear
        self._left = patience
        self._tries_left = most_tries
        self._until = None if within is None else _now() + within
        self._is_known = is_known
        self._unreachable_since: float | None = None
        self._pause = first_pause
        self._costly = 0
        self._is_told = False
        self._was_at_once = False

    def tell(self, heard: Heard) -> None:
        if isinstance(heard, (Said, Thought)):
            self._is_told = True
        self._hear(heard)

    def take_back(self) -> None:
        if self._is_told:
            self._is_told = False
            self._hear(TakenBack())

    def count(self, failure: Failure) -> None:
        """Count a try. Raises the failure's error where it was the last."""
        if self._tries_left is not None:
            self._tries_left -= 1
        if self._tries_left == 0:
            raise failure.error

    async def again(self, failure: Failure, *, is_costly: bool = False) -> None:
        """Wait for the next try. Raises the failure's error where there is none."""
        self._costly += is_costly or self._is_told
        pause = self._pause * random.uniform(0.5, 1.0)  # noqa: S311 - so that many agents do not come back at once
        if failure.after == 0 and not self._was_at_once:
            pause, self._was_at_once = 0.0, True  # believed once: who always says so would be asked for ever
        elif failure.after is not None:
            pause = max(pause, failure.after)
        self.count(failure)
        if not failure.passes or self._costly > _MOST_COSTLY or pause > self._left_for(failure):
            raise failure.error
        self.take_back()
        self._left -= pause
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        self._hear(Waiting(pause, failure.why))
        await asyncio.sleep(pause)

    def _left_for(self, failure: Failure) -> float:
        left = self._left if self._until is None else min(self._left, self._until - _now())
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
