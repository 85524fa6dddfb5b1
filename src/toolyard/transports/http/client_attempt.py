"""One attempt to run a tool over the HTTP API, seen from the client, with all its failures."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Any, cast

import httpx2

from toolyard.core.errors import FieldError, SecurityError, SystemFault, ToolError, ToolyardError, ValidationError
from toolyard.core.limits import MIB

_MAX_LINE = 64 * MIB
_MAX_REFUSAL = 1 * MIB
_OK, _UNAUTHORIZED, _TOO_MANY = 200, 401, 429
_TRY_LATER = frozenset({502, 503, 504})
_LINES_MEDIA_TYPE = "application/x-ndjson"
_START_HINT = "Start `toolyard mcp --http`, or correct the address."
_ERROR_KINDS: dict[str, type[ToolyardError]] = {"security": SecurityError, "tool": ToolError, "system": SystemFault}

Line = Mapping[str, Any]
OnLine = Callable[[Line], Awaitable[None] | None]


class ToolRan(Enum):
    """Whether the tool ran."""

    NO = "no"
    UNKNOWN = "unknown"
    YES = "yes"


class AttemptError(Exception):
    """The attempt failed; `is_retryable` says whether another one may succeed."""

    def __init__(
        self, error: ToolyardError, tool_ran: ToolRan, *, is_retryable: bool, retry_after: float | None = None
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.tool_ran = tool_ran
        self.is_retryable = is_retryable
        self.retry_after = retry_after
        """Seconds of the server's `Retry-After`."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request to run a tool."""

    client: httpx2.AsyncClient
    tool: str
    args: dict[str, Any]
    on_line: OnLine | None

    async def run(self) -> Line:
        """Returns the line with the result. Raises AttemptError."""
        body = {"tool_name": self.tool, "args": self.args}
        has_answered = False
        try:
            async with self._open_response("POST", "/execute", json=body) as answer:
                async for line in _parse_lines(answer):
                    has_answered = True
                    if self.on_line is not None and inspect.isawaitable(pending := self.on_line(line)):
                        await pending
                    if line["type"] == "result":
                        return line
                    if line["type"] == "error":
                        raise _error_from_server(line.get("error"))
        except httpx2.TransportError as broken:
            raise _connection_error(broken, self.client, has_answered=has_answered) from broken
        raise _connection_error(None, self.client, has_answered=has_answered)

    async def is_repeatable(self) -> bool:
        """Whether the server declares the tool idempotent. Raises AttemptError; runs nothing."""
        try:
            async with self._open_response("GET", "/tools") as answer:
                await answer.aread()
        except httpx2.TransportError as broken:
            raise AttemptError(_unreachable(broken, self.client), ToolRan.NO, is_retryable=True) from broken
        try:
            tools = cast("list[dict[str, Any]]", answer.json()["tools"])
            return any(each["name"] == self.tool and each["idempotent"] is True for each in tools)
        except (ValueError, LookupError, TypeError):
            raise _not_toolyard_error() from None

    @asynccontextmanager
    async def _open_response(self, method: str, path: str, **body: Any) -> AsyncGenerator[httpx2.Response]:
        try:
            request = self.client.build_request(method, path, **body)
        except (ValueError, TypeError, httpx2.InvalidURL) as error:
            wrong = ValidationError(
                f"The request cannot be sent: {error}.", hint="Check the address and the arguments."
            )
            raise AttemptError(wrong, ToolRan.NO, is_retryable=False) from error
        answer = await self.client.send(request, stream=True)
        try:
            if answer.status_code != _OK:
                raise _refusal_error(
                    answer.status_code, await _read_limited(answer), answer.headers.get("retry-after")
                )
            yield answer
        finally:
            await answer.aclose()


async def _parse_lines(answer: httpx2.Response) -> AsyncGenerator[dict[str, Any]]:
    if not answer.headers.get("content-type", "").startswith(_LINES_MEDIA_TYPE):
        raise _not_toolyard_error()
    rest = bytearray()
    async for piece in answer.aiter_bytes():
        *whole, left = piece.split(b"\n")
        for end in whole:
            yield _parse_line(bytes(rest + end))
            rest.clear()
        rest += left
        if len(rest) > _MAX_LINE:
            raise _not_toolyard_error()


def _parse_line(text: bytes) -> dict[str, Any]:
    try:
        line: object = json.loads(text)
    except (ValueError, RecursionError):
        raise _not_toolyard_error() from None
    if not isinstance(line, dict) or not _is_valid_line(cast("dict[str, Any]", line)):
        raise _not_toolyard_error()
    return cast("dict[str, Any]", line)


def _is_valid_line(line: dict[str, Any]) -> bool:
    """Whether a line has the form of a line of the HTTP API."""
    if line.get("type") != "result":
        return isinstance(line.get("type"), str)
    content, structured = line.get("content", []), line.get("structured", {})
    if not isinstance(content, list) or not isinstance(structured, dict):
        return False
    parts = cast("list[object]", content)
    return all(isinstance(each, dict) for each in parts)


async def _read_limited(answer: httpx2.Response) -> bytes:
    body = bytearray()
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > _MAX_REFUSAL:
            break
    return bytes(body)


def _refusal_error(status: int, body: bytes, retry_after: str | None) -> AttemptError:
    """Returns the error for a status other than 200. A proxy may send 502, 503 or 504 after the tool ran."""
    try:
        error_fields: object = json.loads(body)["error"]
    except (ValueError, LookupError, TypeError, RecursionError):
        error_fields = None
    wait = _retry_after_seconds(retry_after)
    if isinstance(error_fields, dict):
        failed = _error_from_server(cast("dict[str, Any]", error_fields))
        return AttemptError(failed.error, failed.tool_ran, is_retryable=failed.is_retryable, retry_after=wait)
    if status == _UNAUTHORIZED:
        error = SecurityError("The server rejects this token.", hint="Use the one that it was started with.")
        return AttemptError(error, ToolRan.NO, is_retryable=False)
    is_worth_it = status in _TRY_LATER or status == _TOO_MANY
    reached = ToolRan.NO if status == _TOO_MANY else ToolRan.UNKNOWN
    hint = "Try again later." if is_worth_it else _START_HINT
    error = SystemFault(f"The server answered {status}.", hint=hint, retryable=is_worth_it)
    return AttemptError(error, reached, is_retryable=is_worth_it, retry_after=wait)


def _error_from_server(fields: object) -> AttemptError:
    """Converts an error object of the server."""
    if not isinstance(fields, dict):
        return _not_toolyard_error()
    said = cast("dict[str, Any]", fields)
    message, hint, retryable = str(said.get("message")), str(said.get("hint", "")), said.get("retryable") is True
    reached = ToolRan.NO if said.get("ran") is False else ToolRan.YES
    if said.get("kind") == "validation":
        return AttemptError(_validation_error(message, hint, said), reached, is_retryable=retryable)
    kind = _ERROR_KINDS.get(str(said.get("kind")), SystemFault)
    return AttemptError(kind(message, hint=hint, retryable=retryable), reached, is_retryable=retryable)


def _validation_error(message: str, hint: str, error_data: Mapping[str, Any]) -> ValidationError:
    listed: object = error_data.get("validation_errors")
    found = cast("list[object]", listed) if isinstance(listed, list) else []
    known = [cast("dict[str, Any]", each) for each in found if isinstance(each, dict)]
    fields = tuple(FieldError(str(each.get("field")), str(each.get("error"))) for each in known)
    return ValidationError(message, fields, hint=hint)


def _connection_error(
    error: httpx2.TransportError | None, client: httpx2.AsyncClient, *, has_answered: bool
) -> AttemptError:
    if isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout)):
        return AttemptError(_unreachable(error, client), ToolRan.NO, is_retryable=True)
    if isinstance(error, httpx2.LocalProtocolError):
        wrong = ValidationError(f"The request cannot be sent: {error}.", hint="Check the token.")
        return AttemptError(wrong, ToolRan.NO, is_retryable=False)
    why = f" ({type(error).__name__})" if error is not None else ""
    fault = SystemFault(f"The connection broke before the tool had answered{why}.", hint="Try again.", retryable=True)
    return AttemptError(fault, ToolRan.UNKNOWN, is_retryable=not has_answered)


def _unreachable(error: httpx2.TransportError, client: httpx2.AsyncClient) -> SystemFault:
    why = str(error) or type(error).__name__
    return SystemFault(f"{client.base_url} cannot be reached: {why}.", hint=_START_HINT, retryable=True)


def _not_toolyard_error() -> AttemptError:
    error = SystemFault("The server at this address is not Toolyard's HTTP API.", hint=_START_HINT)
    return AttemptError(error, ToolRan.UNKNOWN, is_retryable=False)


def _retry_after_seconds(after: str | None) -> float | None:
    """Parses Retry-After: seconds or a date."""
    if after is None:
        return None
    if after.isascii() and after.isdigit():
        return float(after)
    try:
        date = parsedate_to_datetime(after)
    except ValueError:
        return None
    known = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
    return max((known - datetime.now(UTC)).total_seconds(), 0.0)
