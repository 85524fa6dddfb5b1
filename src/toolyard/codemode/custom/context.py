"""What a custom tool is given of its surroundings, when it asks for it with a parameter of type `ToolContext`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from toolyard.config.custom_tools import Browser, Vision
from toolyard.config.settings import Settings
from toolyard.core.errors import ToolError
from toolyard.core.upstream import UpstreamProgress

OnConnection = Callable[[str, int, bool], None]
"""A host, a port, and whether it was let through."""


def ignore_event(*_: object) -> None:
    """Where nobody wants to know."""


class WorkspaceFiles(Protocol):
    """The agent's files, as its policy lets it have them. Paths are as the agent spells them."""

    def read(self, path: str) -> bytes: ...

    def write(self, path: str, data: bytes) -> str:
        """Write the file and return the path that the agent knows it by."""
        ...


class NoFiles:
    """Where there is no workspace."""

    def read(self, path: str) -> bytes:
        raise ToolError(f"There is no workspace to read {path!r} from.", hint="Hand over the content instead.")

    def write(self, path: str, data: bytes) -> str:  # noqa: ARG002 - the protocol's
        raise ToolError(f"There is no workspace to write {path!r} to.", hint="Take the content of the answer.")


@dataclass(frozen=True, slots=True)
class ToolContext:
    settings: Settings
    files: WorkspaceFiles
    browser: Browser = field(default_factory=Browser)
    vision: Vision = field(default_factory=Vision)
    allowed_hosts: tuple[str, ...] = ()
    """What the user lets tools reach; nothing else is."""
    on_connection: OnConnection = ignore_event
    progress: UpstreamProgress = ignore_event
