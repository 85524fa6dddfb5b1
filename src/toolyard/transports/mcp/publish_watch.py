"""Polls once a second for publications of other agents and for changes of the tool list."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Self

from toolyard.app.yard import Yard
from toolyard.core.errors import ToolyardError
from toolyard.core.paths import relative_to
from toolyard.files.os_errors import printable_name
from toolyard.sharing.manifest import PublicationStep
from toolyard.sharing.peers import PublicationFollower
from toolyard.sharing.service import SharingService
from toolyard.transports.mcp.poller import Poller

_POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class PeerPublication:
    """What one peer has published."""

    folder: str
    """The folder where its files appear."""
    step: PublicationStep

    def affects(self, path: str) -> bool:
        """Whether the publication may have changed a file."""
        inside = relative_to(path, self.folder)
        if inside is None:
            return False
        step = self.step
        # A step contains escaped names.
        return (
            step.total is None
            or step.total > len(step.paths)
            or inside == "."
            or printable_name(inside) in step.paths
        )


class PublicationPoller(Poller[list[PeerPublication]]):
    """Polls the publications of other agents. Each poll takes a few microseconds."""

    def __init__(self, sharing: SharingService) -> None:
        self._peers = sharing.peers
        self._following = PublicationFollower(self._peers)
        super().__init__(self._poll_publications, _POLL_SECONDS)

    async def _poll_publications(self) -> list[PeerPublication] | None:
        return [
            PeerPublication(self._peers.folder_of(agent), step) for agent, step in self._following.new_steps()
        ] or None


class ToolListPoller(Poller[bool]):
    """Polls for changes of the tool list. Each poll takes a few system calls."""

    def __init__(self, yard: Yard) -> None:
        self._yard = yard
        super().__init__(self._poll_tools, _POLL_SECONDS)

    async def _poll_tools(self) -> bool | None:
        yard = self._yard
        with contextlib.suppress(ToolyardError):  # the next poll sees the same error, or that it is fixed
            # In a thread: if something has changed, files are read.
            return await asyncio.to_thread(yard.served.refresh, yard.dispatch) or None
        return None


@dataclass(frozen=True, slots=True)
class ChangePollers:
    """The pollers of one Yard."""

    published: PublicationPoller | None
    tools: ToolListPoller | None

    @classmethod
    def of(cls, yard: Yard) -> Self | None:
        """Returns the pollers; None if nothing can change."""
        if yard.sharing is None and not yard.served.can_change:
            return None
        published = PublicationPoller(yard.sharing) if yard.sharing is not None else None
        return cls(published, ToolListPoller(yard) if yard.served.can_change else None)

    def start(self) -> None:
        for watch in (self.published, self.tools):
            if watch is not None:
                watch.start()

    async def close(self) -> None:
        for watch in (self.published, self.tools):
            if watch is not None:
                await watch.close()
