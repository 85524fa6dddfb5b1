"""What a run provides to its workers."""

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
    """Shared state and services of one run."""

    run: str
    store: RunStore
    budget: Budget
    emit: EventListener
    tracing: Tracing
    earlier_calls: Mapping[str, Mapping[str, EarlierCall]] = field(
        default_factory=dict[str, Mapping[str, EarlierCall]]
    )
    """In a resumed run: the calls in its log, by agent and call id."""
