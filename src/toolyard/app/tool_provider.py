"""A set of tools served instead of a workspace's own, such as the assistant's.

The tools use the same dispatcher, policy, audit log and transports as all others. The Yard that serves a ToolProvider
closes it after the last call has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from toolyard.dispatch.tool import Tool


@dataclass(frozen=True, slots=True)
class ResourceTemplate:
    """The URI template of a kind of MCP resource."""

    name: str
    uri: str
    description: str


@dataclass(frozen=True, slots=True)
class ToolProvider:
    """Tools, resources and instructions that replace those of a workspace."""

    tools: Mapping[str, Tool[Any]]
    resources: Mapping[str, Tool[Any]]
    """The tools that answer resource requests, by MCP method."""
    templates: tuple[ResourceTemplate, ...]
    instructions: str
    """The instructions that a client receives when it connects."""
    warm_up: Callable[[], None]
    """Prepares the first call. Runs in a thread after a client has listed the tools."""
    close: Callable[[], None]
