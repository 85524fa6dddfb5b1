"""Tools that are served in place of a workspace's own, by whoever composes them: the assistant, say.

They take the same way as all others: one dispatch, the workspace's policy and audit log, every surface. The Yard that
serves an `ToolProvider` closes it with itself, when no call of its tools runs any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from toolyard.dispatch.tool import Tool


@dataclass(frozen=True, slots=True)
class ResourceTemplate:
    """How a kind of resource is addressed."""

    name: str
    uri: str
    description: str


@dataclass(frozen=True, slots=True)
class ToolProvider:
    tools: Mapping[str, Tool[Any]]
    resources: Mapping[str, Tool[Any]]
    """What answers for resources, by the method."""
    templates: tuple[ResourceTemplate, ...]
    instructions: str
    """What a client is told of them when it connects."""
    warm_up: Callable[[], None]
    """Makes ready what the first call needs. Called in a thread, once somebody has asked which tools there are."""
    close: Callable[[], None]
