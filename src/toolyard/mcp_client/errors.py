"""What can go wrong with a server, as errors that name it and say what to do next.

    SystemFault
    └── ServerUnavailable   it could not be started or reached, or it ended; the same call may succeed later
        └── ServerMisbehaved   it speaks, but not as the protocol wants it
    ToolError
    ├── CallFailed          the server answered the call with an error of the protocol
    └── CallTimedOut        it did not answer in time; it was told to stop
    ValidationError
    ├── CallRefused         the server has no such tool, or not with these arguments
    └── UnknownServer       no server has that name

No message carries a value of `env` or of a header: text of the server's goes through its `Mask` first.
"""

from __future__ import annotations

from collections.abc import Iterable

from toolyard.core.errors import SystemFault, ToolError, ValidationError
from toolyard.mcp_client.network_hints import network_hint

INVALID_PARAMS = -32602
METHOD_NOT_FOUND = -32601
_UPDATE_HINT = "Update the server, or take it out of the configuration."


class ServerUnavailable(SystemFault):
    def __init__(self, server: str, message: str, *, hint: str = "", retryable: bool = True) -> None:
        super().__init__(_subject(server) + message, hint=hint, retryable=retryable)
        self.server = server


class ServerMisbehaved(ServerUnavailable):
    def __init__(self, server: str, message: str, *, hint: str = _UPDATE_HINT, retryable: bool = True) -> None:
        super().__init__(server, message, hint=hint, retryable=retryable)


class CallFailed(ToolError):  # noqa: N818 - what happened, in words
    def __init__(self, server: str, tool: str, message: str, *, hint: str = "", retryable: bool = False) -> None:
        super().__init__(message, hint=hint, retryable=retryable)
        self.server = server
        self.tool = tool


def without_server_name(server: str, message: str) -> str:
    """A message about a server, to go on with in a sentence that has named it."""
    return "it " + message.removeprefix(_subject(server)) if message.startswith(_subject(server)) else message


def invalid_result_error(server: str, tool: str) -> CallFailed:
    """It answered, but not as the protocol wants a call answered."""
    said = f"{_subject(server)}answered {tool} with something that is no result"
    return CallFailed(server, tool, said, hint="Update the server, or do without this tool.")


class CallTimedOut(CallFailed):
    def __init__(self, server: str, tool: str, seconds: float) -> None:
        super().__init__(
            server,
            tool,
            f"{_subject(server)}did not answer {tool} within {seconds:g} s",
            hint="Ask for less in one call, or give the server a longer `timeout` in its entry.",
            retryable=True,
        )


class CallRefused(ValidationError):  # noqa: N818 - what happened, in words
    def __init__(self, server: str, tool: str, message: str) -> None:
        super().__init__(message, hint="Look at the tool's file for its name and its arguments.")
        self.server = server
        self.tool = tool


class UnknownServer(ValidationError):  # noqa: N818 - what happened, in words
    def __init__(self, server: str, known: Iterable[str]) -> None:
        names = sorted(known)
        listed = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
        hint = f"Attached are: {listed}." if names else "No server is attached; add one to the configuration."
        super().__init__(f"There is no server '{server}'", hint=hint)
        self.server = server


def _subject(server: str) -> str:
    return f"Server '{server}' "


class RpcError(Exception):
    """A server's answer of the kind `error`. Becomes one of the above before anybody outside sees it."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def call_failure(server: str, tool: str, error: RpcError) -> CallFailed | CallRefused:
    """The server's refusal of a call in our words; its own text is part of it."""
    said = f"Server '{server}' refused {tool}: {error.message}"
    if error.code in (INVALID_PARAMS, METHOD_NOT_FOUND):
        return CallRefused(server, tool, said)
    hint = network_hint(error.message) or "This is the server's own error; its documentation may say more."
    return CallFailed(server, tool, said, hint=hint)
