"""Converts errors of a call to the payload of its answer, without exposing the host's state."""

from __future__ import annotations

from typing import Any

from toolyard.codemode.broker.requests import BrokerRequest, FailureKind, RequestRefused
from toolyard.core.errors import SecurityError, ToolError, ToolyardError, ValidationError
from toolyard.core.upstream import UpstreamResult
from toolyard.mcp_client.errors import CallTimedOut, ServerUnavailable

_FAILURE_KINDS: tuple[tuple[type[Exception], FailureKind], ...] = (
    (CallTimedOut, FailureKind.TIMEOUT),
    (ServerUnavailable, FailureKind.UNAVAILABLE),
    (SecurityError, FailureKind.PERMISSION),
    (ValidationError, FailureKind.ARGUMENTS),
    (ToolError, FailureKind.TOOL),
)


def error_payload(error: Exception, request: BrokerRequest | None = None) -> dict[str, Any]:
    """Returns the `error` of an answer."""
    if isinstance(error, RequestRefused):
        payload: dict[str, Any] = {"kind": str(error.kind), "message": error.message}
        if error.content:
            payload["content"] = list(error.content)
    elif isinstance(error, ToolyardError):
        kind = next((kind for fault, kind in _FAILURE_KINDS if isinstance(error, fault)), FailureKind.SYSTEM)
        payload = {"kind": kind.value, "message": str(error)}
    elif isinstance(error, TimeoutError):
        payload = {"kind": FailureKind.TIMEOUT.value, "message": _timeout_message(request)}
    else:
        message = f"Toolyard itself failed ({type(error).__name__}). Run `toolyard doctor`, and report the bug."
        payload = {"kind": FailureKind.SYSTEM.value, "message": message}
    return payload if request is None else {**payload, "server": request.server, "tool": request.tool}


def _timeout_message(request: BrokerRequest | None) -> str:
    if request is None or request.timeout is None:
        return "It took too long. Ask for less in one call."
    name = f"{request.server}.{request.tool}".strip(".") or request.do.value
    return f"{name} did not answer within {request.timeout:g} s. Ask for less in one call, or give it more time."


def result_payload(answer: object) -> object:
    """Returns the `result` of an answer. Raises RequestRefused if the tool reported an error."""
    if not isinstance(answer, UpstreamResult):
        return answer
    if answer.is_error:
        raise RequestRefused(FailureKind.TOOL, answer.text or "The tool failed without a message.", answer.content)
    result: dict[str, Any] = {"content": answer.content}
    if answer.structured is not None:
        result["structured"] = answer.structured
    return result
