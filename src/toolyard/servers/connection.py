"""What the pool needs of a connection, whatever carries it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from toolyard.core.upstream import Progress, ServerListing, ToolAnswer, ToolSchema
from toolyard.servers.faults import ServerUnavailable


@dataclass(frozen=True, slots=True)
class Agreement:
    """What a server said of itself when it was greeted."""

    protocol: str
    version: str = ""
    instructions: str = ""
    tells_changes: bool = False
    """Whether it promises to say when its list of tools changes."""

    def listing(self, server: str, tools: tuple[ToolSchema, ...]) -> ServerListing:
        return ServerListing(server, tools, self.version, self.protocol, self.instructions)


@dataclass(frozen=True, slots=True)
class Callbacks:
    """What a connection tells its owner, on the loop's thread."""

    lost: Callable[[ServerUnavailable], None]
    """It ended, and not because it was closed. Told at most once."""
    list_changed: Callable[[], None]


class Connection(Protocol):
    """A server that has been greeted. Lives on one loop; calls of many tasks share it."""

    goes_straight: bool
    """Whether a call waits for a `Reply` alone, so that it needs no task of its own."""

    @property
    def agreement(self) -> Agreement: ...

    @property
    def pid(self) -> int | None: ...

    async def call(
        self, tool: str, arguments: Mapping[str, Any], seconds: float, progress: Progress | None
    ) -> ToolAnswer: ...

    async def listing(self, seconds: float) -> ServerListing: ...

    async def close(self) -> None: ...
