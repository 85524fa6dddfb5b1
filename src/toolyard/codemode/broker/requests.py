"""Requests of sandboxed code, and the kinds of failures that it can receive. Pure data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, cast

from toolyard.core.upstream import Json, UpstreamProgress

MAX_TIMEOUT_SECONDS = 86_400.0
"""The longest timeout that a call may set."""
MAX_NAME_CHARS = 1_000
"""Limit for names of servers and tools: they are compared with many others, and cached."""


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


CANCEL = "cancel"
"""Cancels the call whose id is in `call`."""


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


class InvalidFrame(Exception):  # noqa: N818 - says what the frame is
    """A frame that makes the rest of its connection unreliable."""


def frame_id(frame: object) -> int:
    """Returns the id of a frame. Raises InvalidFrame."""
    if not isinstance(frame, dict):
        raise InvalidFrame("a frame has to be a JSON object")
    number = cast("dict[str, object]", frame).get("id")
    if type(number) is not int or number <= 0:
        raise InvalidFrame('a frame needs an "id", a whole number above 0')
    return number


def parse_request(agent: str, frame: Mapping[str, Any]) -> BrokerRequest:
    """Parses a frame. Raises RequestRefused if a part is invalid."""
    arguments, seconds = frame.get("arguments", {}), frame.get("timeout")
    server, tool = frame.get("server", ""), frame.get("tool", "")
    try:
        do = RequestKind(frame.get("do", ""))
    except ValueError:
        raise RequestRefused(FailureKind.ARGUMENTS, f'"do" is one of {", ".join(RequestKind)} or {CANCEL}.') from None
    if not isinstance(arguments, dict):
        raise RequestRefused(FailureKind.ARGUMENTS, "The arguments have to be a JSON object: names and values.")
    if not isinstance(server, str) or not isinstance(tool, str):
        raise RequestRefused(FailureKind.ARGUMENTS, "The names of server and tool have to be text.")
    if len(server) > MAX_NAME_CHARS or len(tool) > MAX_NAME_CHARS:
        raise RequestRefused(
            FailureKind.ARGUMENTS, f"The names of server and tool have at most {MAX_NAME_CHARS:,} characters."
        )
    if seconds is not None and (type(seconds) not in (int, float) or not 0 < seconds <= MAX_TIMEOUT_SECONDS):
        raise RequestRefused(
            FailureKind.ARGUMENTS, f"The time-out has to be a number of seconds, at most {MAX_TIMEOUT_SECONDS:g}."
        )
    return BrokerRequest(agent, do, server, tool, cast("dict[str, Any]", arguments), seconds)
