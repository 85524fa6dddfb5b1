"""The interface of everything that works as an agent: a model API with our tools, or an agent CLI.

A Worker gets one prompt a round and answers it. It emits events while it works, and leaves its files in its
workspace. If it cannot continue, it raises a ToolyardError and drops out of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from toolyard.team.events import AgentInfo, TeamEvent

EventListener = Callable[[TeamEvent], None]

_SHOWN_TEXT = 4_000
_SHOWN_ARGUMENT = 8_000


@dataclass(frozen=True, slots=True)
class WorkResult:
    """The answer of a worker in one round."""

    text: str
    snapshot: str = ""
    """Snapshot of its files; empty if it has none."""


class Worker(Protocol):
    """An agent of a run."""

    @property
    def info(self) -> AgentInfo: ...

    @property
    def shared_prefix(self) -> str:
        """How the agent spells the folder with its peers' work; empty if it cannot see it."""
        ...

    async def work(self, prompt: str, number: int) -> WorkResult:
        """Works on the round `number`. Raises ToolyardError, or BudgetExhausted if the budget ends it."""
        ...

    async def close(self) -> None: ...


def shorten(text: str, max_chars: int = _SHOWN_TEXT) -> str:
    """Cuts a text to the length that an event carries."""
    return text if len(text) <= max_chars else f"{text[:max_chars]}... ({len(text) - max_chars:,} more characters)"


def shorten_arguments(arguments: object) -> Any:
    """Cuts long texts in the arguments of a call."""
    if isinstance(arguments, str):
        return shorten(arguments, _SHOWN_ARGUMENT)
    if isinstance(arguments, Mapping):
        named = cast("Mapping[object, object]", arguments)
        return {str(key): shorten_arguments(value) for key, value in named.items()}
    if isinstance(arguments, list | tuple):
        return [shorten_arguments(value) for value in cast("Sequence[object]", arguments)]
    return arguments
