"""The context that a custom tool receives in a parameter of type `ToolContext`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from toolyard.config.custom_tools import Browser, Vision
from toolyard.config.settings import Settings
from toolyard.core.errors import ToolError
from toolyard.core.upstream import UpstreamProgress

OnConnection = Callable[[str, int, bool], None]
"""Receives a host, a port, and whether the connection was allowed."""


def ignore_event(*_: object) -> None:
    """Discards the event."""


class WorkspaceFiles(Protocol):
    """The agent's files, as its policy allows. Paths are spelled as the agent spells them."""

    def read(self, path: str) -> bytes: ...

    def write(self, path: str, data: bytes) -> str:
        """Writes the file and returns its path in the agent's spelling."""
        ...


class NoFiles:
    """Refuses file access if there is no workspace."""

    def read(self, path: str) -> bytes:
        raise ToolError(f"There is no workspace to read {path!r} from.", hint="Pass the content instead.")

    def write(self, path: str, data: bytes) -> str:  # noqa: ARG002 - the protocol's
        raise ToolError(f"There is no workspace to write {path!r} to.", hint="Use the content in the answer.")


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Settings, files and callbacks for a custom tool."""

    settings: Settings
    files: WorkspaceFiles
    browser: Browser = field(default_factory=Browser)
    vision: Vision = field(default_factory=Vision)
    allowed_hosts: tuple[str, ...] = ()
    """The hosts that the user allows tools to reach."""
    on_connection: OnConnection = ignore_event
    progress: UpstreamProgress = ignore_event
