"""Parses requests to run a tool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request

from toolyard.config.suggestions import closest_match
from toolyard.core.errors import ValidationError
from toolyard.core.json_size import MAX_JSON_PARTS, count_json_parts, find_repeated_key
from toolyard.core.limits import MIB
from toolyard.transports.http.errors import RefusedError

MAX_BODY_BYTES = 32 * MIB
_KEYS = ("tool_name", "args")
_EXAMPLE_HINT = 'Send {"tool_name": "Read", "args": {"file_path": "a.txt"}}.'
_SHOWN = 100
BAD_REQUEST, TOO_LARGE, WRONG_TYPE = 400, 413, 415
# Unread data would break the next request on the connection.
_CLOSE = {"Connection": "close"}


@dataclass(frozen=True, slots=True)
class ExecuteRequest:
    """A request to run a tool."""

    tool: str
    """The name under which the tool is served."""
    args: dict[str, Any]


async def read_execute_request(request: Request) -> ExecuteRequest | None:
    """Reads and validates the request; None if the client disconnected."""
    _check_content_type(request)
    try:
        body = await _read_body(request)
    except ClientDisconnect:
        return None
    return _parse_request(body)


def _check_content_type(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        error = ValidationError.of("Content-Type", "is not application/json", hint=_EXAMPLE_HINT)
        raise RefusedError(WRONG_TYPE, error, _CLOSE)
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        error = ValidationError.of("Content-Encoding", "is not supported", hint="Send the body without encoding.")
        raise RefusedError(WRONG_TYPE, error, _CLOSE)


async def _read_body(request: Request) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared[:_SHOWN]) > MAX_BODY_BYTES:
        raise _too_large()
    body = bytearray()
    async for piece in request.stream():
        if len(body) + len(piece) > MAX_BODY_BYTES:
            raise _too_large()
        body += piece
    return bytes(body)


def _too_large() -> RefusedError:
    hint = f"The maximum is {MAX_BODY_BYTES // MIB} MiB. Send less in one call."
    return RefusedError(TOO_LARGE, ValidationError.of("body", "is too large", hint=hint), _CLOSE)


def _parse_request(body: bytes) -> ExecuteRequest:
    # Parsing blocks the event loop.
    if len(body) > MAX_JSON_PARTS and count_json_parts(body) > MAX_JSON_PARTS:
        raise RefusedError(TOO_LARGE, ValidationError.of("body", "has too many parts", hint="Send less in one call."))
    try:
        parsed: object = from_json(body)
    except ValueError as error:
        raise _bad_request("body", f"is not JSON ({str(error)[:_SHOWN]})") from None
    if not isinstance(parsed, dict):
        raise _bad_request("body", "is not an object")
    if (key := find_repeated_key(body)) is not None:
        raise _bad_request("body", f"has the key {key[:_SHOWN]!r} twice in one object")
    fields = cast("dict[str, Any]", parsed)
    unknown = next((key for key in fields if key not in _KEYS), None)
    if unknown is not None:
        meant = closest_match(unknown, _KEYS)
        guess = f"Did you mean {meant}? " if meant else ""
        raise _bad_request(unknown[:_SHOWN], "is not a member of a request", guess)
    tool, args = fields.get("tool_name"), fields.get("args", {})
    if not isinstance(tool, str) or not tool:
        raise _bad_request("tool_name", "is required, as a string" if tool is None else "is not the name of a tool")
    if not isinstance(args, dict):
        raise _bad_request("args", "is not an object")
    return ExecuteRequest(tool, cast("dict[str, Any]", args))


def _bad_request(field: str, error: str, guess: str = "") -> RefusedError:
    return RefusedError(BAD_REQUEST, ValidationError.of(field, error, hint=guess + _EXAMPLE_HINT))
