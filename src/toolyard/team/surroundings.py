"""What a worker is given by the run it is part of."""

from __future__ import annotations

from dataclasses import dataclass

from toolyard.team.budget import Budget
from toolyard.team.store import RunStore
from toolyard.team.tracing import Tracing
from toolyard.team.worker import Hear


@dataclass(frozen=True, slots=True)
class Surroundings:
    run: str
    store: RunStore
    budget: Budget
    hear: Hear
    tracing: Tracing
