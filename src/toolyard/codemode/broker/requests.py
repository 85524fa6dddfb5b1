"""What sandboxed code may ask for, and what it can be told when it does not get it. Pure data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, cast

from toolyard.core.upstream import Json, UpstreamProgress

MAX_TIMEOUT_SECONDS = 86_400.0
"""The longest time-out a call may name."""
MAX_NAME_CHARS = 1_000
"""Of a server or a tool: names are compared with many others, and remembered."""


def ignore_progress(done: float, total: float | None, message: str) -> None:
    """Where the caller does not want to know."""


class RequestKind(StrEnum):
    MCP = "mcp"
    """A tool of an upstream server."""
    CUSTOM = "custom"
    SEARCH = "search"
    SKILL = "skill"
    """Keep one."""
    PROMOTE = "promote"
    """Copy one to everybody's."""
    SKILLS = "skills"
    """List them."""


CANCEL = "cancel"
"""Asks for nothing itself: it ends the call that `call` names."""


class FailureKind(StrEnum):
    """Why something failed. `toolyard_runtime.errors` has an exception for each."""

    TOOL = "tool"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    ARGUMENTS = "invalid"
    PERMISSION = "permission"
    SYSTEM = "system"
    LOST = "lost"
    """The connection itself is over."""


class RequestRefused(Exception):  # noqa: N818 - an answer, not a fault
    """A handler's way to say no: the kind decides what the agent's code sees raised."""

    def __init__(self, kind: str, message: str, content: Sequence[Json] = ()) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.content = content


@dataclass(frozen=True, slots=True)
class BrokerRequest:
    agent: str
    """Whose socket it came through. Nothing in a frame has a say in it."""
    do: RequestKind
    server: str = ""
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    timeout: float | None = None


class RequestHandler(Protocol):
    async def __call__(self, request: BrokerRequest, progress: UpstreamProgress) -> Any:
        """The answer: anything JSON can hold, or a ToolAnswer. Raises Refused or an error of `core.errors`."""
        ...


CanRunEagerly = Callable[[BrokerRequest], bool]
"""Whether a request of now waits for one `Reply` alone, so that it needs no task; see `core.straight`."""


def never_eager(request: BrokerRequest) -> bool:  # noqa: ARG001 - the contract of GoesStraight
    return False


class InvalidFrame(Exception):  # noqa: N818 - says what the frame is
    """A frame after which nothing on its connection can be believed."""


def frame_id(frame: object) -> int:
    """The number a frame's answer goes to. Raises BrokenFrame."""
    if not isinstance(frame, dict):
        raise InvalidFrame("a frame has to be a JSON object")
    number = cast("dict[str, object]", frame).get("id")
    if type(number) is not int or number <= 0:
        raise InvalidFrame('a frame needs an "id", a whole number above 0')
    return number


def parse_request(agent: str, frame: Mapping[str, Any]) -> BrokerRequest:
    """Raises Refused where one part makes no sense."""
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
