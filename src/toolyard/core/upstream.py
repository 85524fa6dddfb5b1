"""Upstream MCP servers and their tools. Pure data, shared by every layer that handles them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = Mapping[str, Any]
"""A JSON object, as received."""
UpstreamProgress = Callable[[float, float | None, str], None]
"""Receives the progress of a call: the amount done, the total (if known), and a message."""


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """One tool, as its server lists it. Every field is untrusted text."""

    name: str
    description: str = ""
    input_schema: Json = field(default_factory=dict[str, Any])
    output_schema: Json | None = None
    annotations: Json = field(default_factory=dict[str, Any])
    title: str = ""

    @property
    def is_read_only(self) -> bool:
        """Whether the server claims that the tool changes nothing. A claim, not a fact."""
        return self.annotations.get("readOnlyHint") is True

    @property
    def is_destructive(self) -> bool:
        """Whether the tool may destroy something. True also if the server says nothing, as MCP defines it."""
        return not self.is_read_only and self.annotations.get("destructiveHint") is not False


@dataclass(frozen=True, slots=True)
class ServerListing:
    """The tools of a server at one moment."""

    server: str
    """The server's name in the configuration, which identifies it. Names that servers give
    themselves are not unique.
    """
    tools: tuple[ToolSchema, ...]
    version: str = ""
    protocol: str = ""
    instructions: str = ""


@dataclass(frozen=True, slots=True)
class UpstreamResult:
    """The result of a call of an upstream tool."""

    content: tuple[Json, ...]
    """MCP content blocks: text, image, audio, resource, resource_link."""
    structured: Any = None
    is_error: bool = False

    @property
    def text(self) -> str:
        """All text blocks, joined by line breaks."""
        return "\n".join(str(block.get("text", "")) for block in self.content if block.get("type") == "text")
