"""The interface of the broker: requests of sandboxed code, their failures, their handler, the limits. Pure data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from toolyard.core.json_size import MAX_JSON_PARTS
from toolyard.core.limits import MIB
from toolyard.core.upstream import Json, UpstreamProgress


def ignore_progress(done: float, total: float | None, message: str) -> None:
    """Discards the report."""


class RequestKind(StrEnum):
    """What a request asks for."""

    MCP = "mcp"
    """Calls a tool of an upstream server."""
    CUSTOM = "custom"
    SEARCH = "search"
    SKILL = "skill"
    """Saves a skill."""
    PROMOTE = "promote"
    """Copies a skill to the community."""
    SKILLS = "skills"
    """Lists the skills."""


class FailureKind(StrEnum):
    """Why a request failed. `toolyard_runtime.errors` has an exception for each."""

    TOOL = "tool"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    ARGUMENTS = "invalid"
    PERMISSION = "permission"
    SYSTEM = "system"
    LOST = "lost"
    """The connection has ended."""


class RequestRefused(Exception):  # noqa: N818 - an answer, not a fault
    """Raised by a handler to refuse a request. The kind decides which exception the agent's code gets."""

    def __init__(self, kind: str, message: str, content: Sequence[Json] = ()) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.content = content


@dataclass(frozen=True, slots=True)
class BrokerRequest:
    """One request."""

    agent: str
    """The owner of the socket that received the request. No frame can change it."""
    do: RequestKind
    server: str = ""
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    timeout: float | None = None


class RequestHandler(Protocol):
    """Answers requests."""

    async def __call__(self, request: BrokerRequest, progress: UpstreamProgress) -> Any:
        """Returns anything JSON can represent, or an UpstreamResult. Raises RequestRefused or an error of
        `core.errors`.
        """
        ...


CanRunEagerly = Callable[[BrokerRequest], bool]
"""Whether a request waits for one `InlineFuture` only, so that it needs no task; see `core.eager_call`."""


def never_eager(request: BrokerRequest) -> bool:  # noqa: ARG001 - the contract of GoesStraight
    """Runs every request as a task."""
    return False


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """Limits of one agent's broker."""

    frame_bytes: int = 64 * MIB
    """The longest request and the longest answer."""
    connections: int = 256
    calls_per_connection: int = 256
    calls: int = 1_024
    """Concurrent calls of one agent."""
    request_bytes: int = 256 * MIB
    """Bytes of all requests that are being read or answered; at least one frame."""
    parts: int = MAX_JSON_PARTS
    """Parts of one request, as `core.json_size` counts them. In memory they are much larger than in a frame."""
    unread_bytes: int = 512 * MIB
    """Bytes of all answers that the agent has not read yet."""
    buffered_bytes: int = 1 * MIB
    """Unread bytes of one connection at which its requests are no longer read."""
    stall_seconds: float = 120.0
    """How long a partial frame or an unread answer may make no progress."""


DEFAULT_BROKER_LIMITS = BrokerLimits()
