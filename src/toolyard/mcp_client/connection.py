"""What the pool needs of a connection, whatever carries it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from toolyard.core.upstream import ServerListing, ToolSchema, UpstreamProgress, UpstreamResult
from toolyard.mcp_client.errors import ServerUnavailable


@dataclass(frozen=True, slots=True)
class HandshakeResult:
    """What a server said of itself when it was greeted."""

    protocol: str
    version: str = ""
    instructions: str = ""
    announces_changes: bool = False
    """Whether it promises to say when its list of tools changes."""

    def make_listing(self, server: str, tools: tuple[ToolSchema, ...]) -> ServerListing:
        return ServerListing(server, tools, self.version, self.protocol, self.instructions)


@dataclass(frozen=True, slots=True)
class ConnectionCallbacks:
    """What a connection tells its owner, on the loop's thread."""

    on_lost: Callable[[ServerUnavailable], None]
    """It ended, and not because it was closed. Told at most once."""
    on_list_changed: Callable[[], None]


class UpstreamConnection(Protocol):
    """A server that has been greeted. Lives on one loop; calls of many tasks share it."""

    can_run_eagerly: bool
    """Whether a call waits for a `Reply` alone, so that it needs no task of its own."""

    @property
    def handshake(self) -> HandshakeResult: ...

    @property
    def pid(self) -> int | None: ...

    async def call(
        self, tool: str, arguments: Mapping[str, Any], seconds: float, progress: UpstreamProgress | None
    ) -> UpstreamResult: ...

    async def server_listing(self, seconds: float) -> ServerListing: ...

    async def close(self) -> None: ...


def report_progress(listener: UpstreamProgress, done: float, total: float | None, message: str) -> None:
    """Tell how far a call has come, at once: put off to the loop, an answer that goes straight would overtake it.

    A fault of who hears it is not one of the connection.
    """
    try:
        listener(done, total, message)
    except Exception as fault:  # noqa: BLE001 - the caller's own function, whatever it does
        context = {"message": "a call's progress could not be told", "exception": fault}
        asyncio.get_running_loop().call_exception_handler(context)
