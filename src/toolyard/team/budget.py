"""How much a run may take: time, tokens, money. All its agents draw on one budget."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from toolyard.models.messages import ModelUsage
from toolyard.team.events import EndReason

if TYPE_CHECKING:
    from toolyard.config.models import TeamLimits


class BudgetExhausted(Exception):  # noqa: N818 - the end of a run, not an error
    """Nothing is left of the budget."""

    def __init__(self, ended: EndReason) -> None:
        super().__init__(ended.value)
        self.ended = ended


class Budget:
    def __init__(self, limits: TeamLimits, *, spent: ModelUsage | None = None, seconds: float = 0.0) -> None:
        """`spent` and `seconds` are what earlier parts of a run that is resumed have taken."""
        self.limits = limits
        self.spent = spent or ModelUsage()
        self._before = seconds
        self._began: float | None = None

    def begin(self) -> None:
        """The clock runs from here on: what it takes to open everything is nobody's work."""
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """What the run has taken so far."""
        return self._before + (time.monotonic() - self._began if self._began is not None else 0.0)

    @property
    def seconds_left(self) -> float:
        return max(self.limits.seconds - self.seconds, 0.0)

    def spend(self, spent: ModelUsage) -> None:
        self.spent += spent

    def check(self) -> None:
        """Before the next turn of any agent. Raises UsedUp."""
        limits = self.limits
        if not self.seconds_left:
            raise BudgetExhausted(EndReason.TIME)
        if limits.tokens is not None and self.spent.total >= limits.tokens:
            raise BudgetExhausted(EndReason.TOKENS)
        if limits.cost is not None and (self.spent.cost or 0.0) >= limits.cost:
            raise BudgetExhausted(EndReason.COST)
