"""What a worker is given by the run it is part of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolyard.team.budget import Budget
from toolyard.team.log import EarlierCall
from toolyard.team.store import RunStore
from toolyard.team.tracing import Tracing
from toolyard.team.worker import EventListener


@dataclass(frozen=True, slots=True)
class RunContext:
    run: str
    store: RunStore
    budget: Budget
    emit: EventListener
    tracing: Tracing
    earlier_calls: Mapping[str, Mapping[str, EarlierCall]] = field(
        default_factory=dict[str, Mapping[str, EarlierCall]]
    )
    """Of a run that is resumed: by agent and id, the calls that its log tells of."""
