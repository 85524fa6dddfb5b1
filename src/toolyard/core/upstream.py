"""What is known of upstream MCP servers and their tools. Pure data, shared by every layer that deals with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = Mapping[str, Any]
"""An object of JSON, as it came."""
UpstreamProgress = Callable[[float, float | None, str], None]
"""Told how far a call has come: done, of how much (where that is known), and words."""


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """One tool, as its server lists it. Everything in it is a stranger's text."""

    name: str
    description: str = ""
    input_schema: Json = field(default_factory=dict[str, Any])
    output_schema: Json | None = None
    annotations: Json = field(default_factory=dict[str, Any])
    title: str = ""

    @property
    def is_read_only(self) -> bool:
        """Whether the server says that it changes nothing. A claim, not a fact."""
        return self.annotations.get("readOnlyHint") is True

    @property
    def is_destructive(self) -> bool:
        """Whether it may destroy something; as the protocol has it, also where the server says nothing."""
        return not self.is_read_only and self.annotations.get("destructiveHint") is not False


@dataclass(frozen=True, slots=True)
class ServerListing:
    """A server's tools at one moment."""

    server: str
    """The name it has in the configuration: its identity. What it calls itself is not unique."""
    tools: tuple[ToolSchema, ...]
    version: str = ""
    protocol: str = ""
    instructions: str = ""


@dataclass(frozen=True, slots=True)
class UpstreamResult:
    """What a tool call came back with."""

    content: tuple[Json, ...]
    """Content blocks as MCP has them: text, image, audio, resource, resource_link."""
    structured: Any = None
    is_error: bool = False

    @property
    def text(self) -> str:
        return "\n".join(str(block.get("text", "")) for block in self.content if block.get("type") == "text")
