"""Time, token and cost limits of a run. All agents of the run share one budget."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from toolyard.models.messages import ModelUsage
from toolyard.team.events import EndReason

if TYPE_CHECKING:
    from toolyard.config.models import TeamLimits


class BudgetExhausted(Exception):  # noqa: N818 - the end of a run, not an error
    """The budget of the run is exhausted."""

    def __init__(self, ended: EndReason) -> None:
        super().__init__(ended.value)
        self.ended = ended


class Budget:
    """Counts what a run spends and stops it at its limits."""

    def __init__(self, limits: TeamLimits, *, spent: ModelUsage | None = None, seconds: float = 0.0) -> None:
        """`spent` and `seconds` are what a resumed run has already used."""
        self.limits = limits
        self.spent = spent or ModelUsage()
        self._before = seconds
        self._began: float | None = None

    def begin(self) -> None:
        """Starts the clock. Opening the workers does not count."""
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds that the run has used so far."""
        return self._before + (time.monotonic() - self._began if self._began is not None else 0.0)

    @property
    def seconds_left(self) -> float:
        return max(self.limits.seconds - self.seconds, 0.0)

    def spend(self, spent: ModelUsage) -> None:
        self.spent += spent

    def check(self) -> None:
        """Checks the limits before the next turn of an agent. Raises BudgetExhausted."""
        limits = self.limits
        if not self.seconds_left:
            raise BudgetExhausted(EndReason.TIME)
        if limits.tokens is not None and self.spent.total >= limits.tokens:
            raise BudgetExhausted(EndReason.TOKENS)
        if limits.cost is not None and (self.spent.cost or 0.0) >= limits.cost:
            raise BudgetExhausted(EndReason.COST)
