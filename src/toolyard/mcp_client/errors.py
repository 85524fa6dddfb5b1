"""Errors of servers. Each names the server and says what to do next.

    SystemFault
    └── ServerUnavailable   could not be started or reached, or ended; the same call may succeed later
        └── ServerMisbehaved   answers, but violates the protocol
    ToolError
    ├── CallFailed          the server answered the call with a protocol error
    └── CallTimedOut        no answer in time; the call was cancelled
    ValidationError
    ├── CallRefused         no such tool, or not with these arguments
    └── UnknownServer       no server has that name

No message contains a value of `env` or of a header: text of a server passes its `SecretMask` first.
"""

from __future__ import annotations

from collections.abc import Iterable

from toolyard.core.errors import SystemFault, ToolError, ValidationError
from toolyard.mcp_client.network_hints import network_hint

INVALID_PARAMS = -32602
METHOD_NOT_FOUND = -32601
_UPDATE_HINT = "Update the server, or take it out of the configuration."


class ServerUnavailable(SystemFault):
    """The server could not be started or reached, or it ended."""

    def __init__(self, server: str, message: str, *, hint: str = "", retryable: bool = True) -> None:
        super().__init__(_subject(server) + message, hint=hint, retryable=retryable)
        self.server = server


class ServerMisbehaved(ServerUnavailable):
    """The server violates the protocol."""

    def __init__(self, server: str, message: str, *, hint: str = _UPDATE_HINT, retryable: bool = True) -> None:
        super().__init__(server, message, hint=hint, retryable=retryable)


class CallFailed(ToolError):  # noqa: N818 - what happened, in words
    """The server answered the call with an error."""

    def __init__(self, server: str, tool: str, message: str, *, hint: str = "", retryable: bool = False) -> None:
        super().__init__(message, hint=hint, retryable=retryable)
        self.server = server
        self.tool = tool


def without_server_name(server: str, message: str) -> str:
    """Returns a message with "it" in place of the server's name, to continue a sentence that names the server."""
    return "it " + message.removeprefix(_subject(server)) if message.startswith(_subject(server)) else message


def invalid_result_error(server: str, tool: str) -> CallFailed:
    """Returns the error for an answer that is not a valid result."""
    message = f"{_subject(server)}answered {tool} with an invalid result"
    return CallFailed(server, tool, message, hint="Update the server, or do without this tool.")


class CallTimedOut(CallFailed):
    """The server did not answer in time."""

    def __init__(self, server: str, tool: str, seconds: float) -> None:
        super().__init__(
            server,
            tool,
            f"{_subject(server)}did not answer {tool} within {seconds:g} s",
            hint="Ask for less in one call, or give the server a longer `timeout` in its entry.",
            retryable=True,
        )


class CallRefused(ValidationError):  # noqa: N818 - what happened, in words
    """The server refused the tool or its arguments."""

    def __init__(self, server: str, tool: str, message: str) -> None:
        super().__init__(message, hint="Check the tool's file for its name and its arguments.")
        self.server = server
        self.tool = tool


class UnknownServer(ValidationError):  # noqa: N818 - what happened, in words
    """No attached server has this name."""

    def __init__(self, server: str, known: Iterable[str]) -> None:
        names = sorted(known)
        shown_names = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
        hint = (
            f"Attached servers: {shown_names}." if names else "No server is attached; add one to the configuration."
        )
        super().__init__(f"There is no server '{server}'", hint=hint)
        self.server = server


def _subject(server: str) -> str:
    return f"Server '{server}' "


class RpcError(Exception):
    """A JSON-RPC error of a server. Converted to one of the errors above before it leaves the package."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def call_failure(server: str, tool: str, error: RpcError) -> CallFailed | CallRefused:
    """Converts the server's JSON-RPC error of a call; the message quotes it."""
    message = f"Server '{server}' refused {tool}: {error.message}"
    if error.code in (INVALID_PARAMS, METHOD_NOT_FOUND):
        return CallRefused(server, tool, message)
    hint = network_hint(error.message) or "This is the server's own error; its documentation may say more."
    return CallFailed(server, tool, message, hint=hint)
