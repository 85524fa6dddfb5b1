"""The exceptions that a tool call raises in agent code.

    RuntimeError
    ├── ToolError            the server ran the tool and reported a failure
    │   └── ToolTimeout      no answer in time (a TimeoutError as well)
    └── ServerUnavailable    the server cannot be reached or started
    ValueError
    └── InvalidArguments     there is no such tool, or it refused the arguments
    ConnectionError
    └── BrokerLost           the connection to the host broke during the call

A call that the agent is not allowed to make raises the builtin `PermissionError`. Every message says what happened
and what to do next; the host writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class _CallFailure(Exception):  # noqa: N818 - a half of the classes below
    """The fields that every failure has: the server and the tool that were called, and what came back."""

    server: str
    tool: str
    content: Sequence[Any]

    def __init__(self, message: str = "", server: str = "", tool: str = "", content: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.server = server
        self.tool = tool
        self.content = content

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # The default rebuilds from `args`, which contain only the message: a failure must survive a process pool.
        return type(self), (self.message, self.server, self.tool, self.content)


class ToolError(_CallFailure, RuntimeError):
    """The server ran the tool and reported a failure. `content` has the blocks of its answer."""


class ToolTimeout(ToolError, TimeoutError):  # noqa: N818
    """No answer came in time. The tool may still have done its work."""


class ServerUnavailable(_CallFailure, RuntimeError):  # noqa: N818 - agents read it as a sentence
    """The server cannot be reached, or died during the call."""


class InvalidArguments(_CallFailure, ValueError):  # noqa: N818
    """There is no such tool, or it refused the arguments."""


class BrokerLost(_CallFailure, ConnectionError):  # noqa: N818
    """The connection to the host broke. The call may or may not have been made."""


_EXCEPTION_KINDS: Mapping[str, type[_CallFailure]] = {
    "tool": ToolError,
    "timeout": ToolTimeout,
    "unavailable": ServerUnavailable,
    "invalid": InvalidArguments,
    "lost": BrokerLost,
}
"""The exception for each `kind` of an error frame. `permission` is the builtin; any other is a RuntimeError."""


def exception_for(
    kind: str, message: str, *, server: str = "", tool: str = "", content: Sequence[Any] = ()
) -> Exception:
    """Returns the exception for an error that came over the wire."""
    if kind == "permission":
        return PermissionError(message)
    made = _EXCEPTION_KINDS.get(kind)
    return made(message, server, tool, content) if made else RuntimeError(message)
