"""What clients are told of: that another agent has published, that the list of tools has changed. A look a second."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Self

from toolyard.app.yard import Yard
from toolyard.core.errors import ToolyardError
from toolyard.core.paths import beneath
from toolyard.files.os_errors import shown
from toolyard.sharing.manifest import Step
from toolyard.sharing.peers import Following
from toolyard.sharing.service import Sharing
from toolyard.transports.mcp.poller import Watch

_EVERY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Changed:
    """What one peer has published."""

    place: str
    """The folder in which its files are seen."""
    step: Step

    def covers(self, path: str) -> bool:
        """Whether a file may have changed."""
        inside = beneath(path, self.place)
        if inside is None:
            return False
        step = self.step
        # A step spells names as they are shown.
        return step.total is None or step.total > len(step.paths) or inside == "." or shown(inside) in step.paths


class Changes(Watch[list[Changed]]):
    """What other agents publish. A look costs a few microseconds."""

    def __init__(self, sharing: Sharing) -> None:
        self._peers = sharing.peers
        self._following = Following(self._peers)
        super().__init__(self._published, _EVERY_SECONDS)

    async def _published(self) -> list[Changed] | None:
        return [Changed(self._peers.place(agent), step) for agent, step in self._following.steps()] or None


class ToolChanges(Watch[bool]):
    """That the list of tools is another one. A look costs a few system calls."""

    def __init__(self, yard: Yard) -> None:
        self._yard = yard
        super().__init__(self._refreshed, _EVERY_SECONDS)

    async def _refreshed(self) -> bool | None:
        yard = self._yard
        with contextlib.suppress(ToolyardError):  # the next look meets the same, or finds it mended
            # In a thread: where something has changed, files are read.
            return await asyncio.to_thread(yard.served.refresh, yard.dispatch) or None
        return None


@dataclass(frozen=True, slots=True)
class Watches:
    """What is watched for the clients of one yard."""

    published: Changes | None
    tools: ToolChanges | None

    @classmethod
    def of(cls, yard: Yard) -> Self | None:
        """None where there is nothing that clients would be told of."""
        if yard.sharing is None and not yard.served.can_change:
            return None
        published = Changes(yard.sharing) if yard.sharing is not None else None
        return cls(published, ToolChanges(yard) if yard.served.can_change else None)

    def start(self) -> None:
        for watch in (self.published, self.tools):
            if watch is not None:
                watch.start()

    async def close(self) -> None:
        for watch in (self.published, self.tools):
            if watch is not None:
                await watch.close()
