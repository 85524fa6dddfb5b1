"""One interface for everything that works as an agent: a model behind an API with our tools, or an agent CLI.

A Worker is given one prompt in each round and answers it. It tells what it does as it does it, and leaves its files
in its workspace. Where it cannot go on it raises an error of ours, and is out of the run.
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
    """What a worker has come to."""

    text: str
    snapshot: str = ""
    """Of its files now; empty where it has none."""


class Worker(Protocol):
    @property
    def info(self) -> AgentInfo: ...

    @property
    def shared_prefix(self) -> str:
        """How the agent spells the folder in which it finds the work of its peers; empty where it sees none."""
        ...

    async def work(self, prompt: str, number: int) -> WorkResult:
        """Do the round of this number. Raises ToolyardError, and UsedUp where the budget ends it."""
        ...

    async def close(self) -> None: ...


def shorten(text: str, max_chars: int = _SHOWN_TEXT) -> str:
    """As much of a text as an event carries."""
    return text if len(text) <= max_chars else f"{text[:max_chars]}... ({len(text) - max_chars:,} more characters)"


def shorten_arguments(arguments: object) -> Any:
    """The arguments of a call, long texts cut."""
    if isinstance(arguments, str):
        return shorten(arguments, _SHOWN_ARGUMENT)
    if isinstance(arguments, Mapping):
        named = cast("Mapping[object, object]", arguments)
        return {str(key): shorten_arguments(value) for key, value in named.items()}
    if isinstance(arguments, list | tuple):
        return [shorten_arguments(value) for value in cast("Sequence[object]", arguments)]
    return arguments
