"""The interface of a connection to a server, for every transport."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from toolyard.core.upstream import ServerListing, ToolSchema, UpstreamProgress, UpstreamResult
from toolyard.mcp_client.errors import ServerUnavailable


@dataclass(frozen=True, slots=True)
class HandshakeResult:
    """What a server announced in the handshake."""

    protocol: str
    version: str = ""
    instructions: str = ""
    announces_changes: bool = False
    """Whether it announces changes of its tool list."""

    def make_listing(self, server: str, tools: tuple[ToolSchema, ...]) -> ServerListing:
        return ServerListing(server, tools, self.version, self.protocol, self.instructions)


@dataclass(frozen=True, slots=True)
class ConnectionCallbacks:
    """What a connection reports to its owner, on the loop's thread."""

    on_lost: Callable[[ServerUnavailable], None]
    """The connection was lost, not closed. Called at most once."""
    on_list_changed: Callable[[], None]


class UpstreamConnection(Protocol):
    """An initialized connection. It lives on one loop; the calls of many tasks share it."""

    can_run_eagerly: bool
    """Whether a call awaits only an `InlineFuture`, so that it needs no task of its own."""

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
    """Reports progress immediately: scheduled on the loop, it could arrive after the answer.

    An error of the listener does not affect the connection.
    """
    try:
        listener(done, total, message)
    except Exception as fault:  # noqa: BLE001 - the caller's function may raise anything
        context = {"message": "could not report the progress of a call", "exception": fault}
        asyncio.get_running_loop().call_exception_handler(context)
