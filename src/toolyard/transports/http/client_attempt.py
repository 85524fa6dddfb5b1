"""One attempt to run a tool through the door, from the caller's side, and all that can become of it."""

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

_MOST_LINE = 64 * MIB
_MOST_REFUSAL = 1 * MIB
_OK, _UNAUTHORIZED, _TOO_MANY = 200, 401, 429
_TRY_LATER = frozenset({502, 503, 504})
_LINES = "application/x-ndjson"
_START = "Start `toolyard mcp --http`, or correct the address."
_KINDS: dict[str, type[ToolyardError]] = {"security": SecurityError, "tool": ToolError, "system": SystemFault}

Line = Mapping[str, Any]
OnLine = Callable[[Line], Awaitable[None] | None]


class Reached(Enum):
    """Whether the tool was run."""

    NO = "no"
    UNKNOWN = "unknown"
    YES = "yes"


class FailedError(Exception):
    """The attempt did not succeed; `is_worth_it`: another one may."""

    def __init__(
        self, error: ToolyardError, reached: Reached, *, is_worth_it: bool, after: float | None = None
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.reached = reached
        self.is_worth_it = is_worth_it
        self.after = after
        """Seconds that the server wants to be left alone."""


@dataclass(frozen=True, slots=True)
class Attempt:
    client: httpx2.AsyncClient
    tool: str
    args: dict[str, Any]
    on_line: OnLine | None

    async def run(self) -> Line:
        """The line with the result. Raises FailedError."""
        asked = {"tool_name": self.tool, "args": self.args}
        is_told = False
        try:
            async with self._answer("POST", "/execute", json=asked) as answer:
                async for line in _lines(answer):
                    is_told = True
                    if self.on_line is not None and inspect.isawaitable(heard := self.on_line(line)):
                        await heard
                    if line["type"] == "result":
                        return line
                    if line["type"] == "error":
                        raise _said(line.get("error"))
        except httpx2.TransportError as broken:
            raise _broken(broken, self.client, is_told=is_told) from broken
        raise _broken(None, self.client, is_told=is_told)

    async def is_repeatable(self) -> bool:
        """Whether the server says that the tool may be run twice. Raises FailedError, having run nothing."""
        try:
            async with self._answer("GET", "/tools") as answer:
                await answer.aread()
        except httpx2.TransportError as broken:
            raise FailedError(_unreachable(broken, self.client), Reached.NO, is_worth_it=True) from broken
        try:
            tools = cast("list[dict[str, Any]]", answer.json()["tools"])
            return any(each["name"] == self.tool and each["idempotent"] is True for each in tools)
        except (ValueError, LookupError, TypeError):
            raise _nonsense() from None

    @asynccontextmanager
    async def _answer(self, method: str, path: str, **body: Any) -> AsyncGenerator[httpx2.Response]:
        try:
            request = self.client.build_request(method, path, **body)
        except (ValueError, TypeError, httpx2.InvalidURL) as error:
            wrong = ValidationError(
                f"The request cannot be sent: {error}.", hint="Check the address and the arguments."
            )
            raise FailedError(wrong, Reached.NO, is_worth_it=False) from error
        answer = await self.client.send(request, stream=True)
        try:
            if answer.status_code != _OK:
                raise _refused(answer.status_code, await _start_of(answer), answer.headers.get("retry-after"))
            yield answer
        finally:
            await answer.aclose()


async def _lines(answer: httpx2.Response) -> AsyncGenerator[dict[str, Any]]:
    if not answer.headers.get("content-type", "").startswith(_LINES):
        raise _nonsense()
    rest = bytearray()
    async for piece in answer.aiter_bytes():
        *whole, left = piece.split(b"\n")
        for end in whole:
            yield _line(bytes(rest + end))
            rest.clear()
        rest += left
        if len(rest) > _MOST_LINE:
            raise _nonsense()


def _line(text: bytes) -> dict[str, Any]:
    try:
        line: object = json.loads(text)
    except (ValueError, RecursionError):
        raise _nonsense() from None
    if not isinstance(line, dict) or not _is_ours(cast("dict[str, Any]", line)):
        raise _nonsense()
    return cast("dict[str, Any]", line)


def _is_ours(line: dict[str, Any]) -> bool:
    """Whether it has the parts that a line of the door has, of the kinds they have there."""
    if line.get("type") != "result":
        return isinstance(line.get("type"), str)
    content, structured = line.get("content", []), line.get("structured", {})
    if not isinstance(content, list) or not isinstance(structured, dict):
        return False
    parts = cast("list[object]", content)
    return all(isinstance(each, dict) for each in parts)


async def _start_of(answer: httpx2.Response) -> bytes:
    body = bytearray()
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > _MOST_REFUSAL:
            break
    return bytes(body)


def _refused(status: int, body: bytes, after: str | None) -> FailedError:
    """What a status other than 200 means. A proxy's 502, 503 or 504 may come after the tool was run."""
    try:
        said: object = json.loads(body)["error"]
    except (ValueError, LookupError, TypeError, RecursionError):
        said = None
    wait = _seconds(after)
    if isinstance(said, dict):
        failed = _said(cast("dict[str, Any]", said))
        return FailedError(failed.error, failed.reached, is_worth_it=failed.is_worth_it, after=wait)
    if status == _UNAUTHORIZED:
        error = SecurityError("The server does not take this token.", hint="Use the one that it was started with.")
        return FailedError(error, Reached.NO, is_worth_it=False)
    is_worth_it = status in _TRY_LATER or status == _TOO_MANY
    reached = Reached.NO if status == _TOO_MANY else Reached.UNKNOWN
    hint = "Try again later." if is_worth_it else _START
    error = SystemFault(f"The server answered {status}.", hint=hint, retryable=is_worth_it)
    return FailedError(error, reached, is_worth_it=is_worth_it, after=wait)


def _said(words: object) -> FailedError:
    """An error of the server's as ours."""
    if not isinstance(words, dict):
        return _nonsense()
    said = cast("dict[str, Any]", words)
    message, hint, retryable = str(said.get("message")), str(said.get("hint", "")), said.get("retryable") is True
    reached = Reached.NO if said.get("ran") is False else Reached.YES
    if said.get("kind") == "validation":
        return FailedError(_validation(message, hint, said), reached, is_worth_it=retryable)
    kind = _KINDS.get(str(said.get("kind")), SystemFault)
    return FailedError(kind(message, hint=hint, retryable=retryable), reached, is_worth_it=retryable)


def _validation(message: str, hint: str, said: Mapping[str, Any]) -> ValidationError:
    listed: object = said.get("validation_errors")
    found = cast("list[object]", listed) if isinstance(listed, list) else []
    known = [cast("dict[str, Any]", each) for each in found if isinstance(each, dict)]
    fields = tuple(FieldError(str(each.get("field")), str(each.get("error"))) for each in known)
    return ValidationError(message, fields, hint=hint)


def _broken(error: httpx2.TransportError | None, client: httpx2.AsyncClient, *, is_told: bool) -> FailedError:
    if isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout)):
        return FailedError(_unreachable(error, client), Reached.NO, is_worth_it=True)
    if isinstance(error, httpx2.LocalProtocolError):
        wrong = ValidationError(f"The request cannot be sent: {error}.", hint="Check the token.")
        return FailedError(wrong, Reached.NO, is_worth_it=False)
    why = f" ({type(error).__name__})" if error is not None else ""
    fault = SystemFault(f"The connection broke before the tool had answered{why}.", hint="Try again.", retryable=True)
    return FailedError(fault, Reached.UNKNOWN, is_worth_it=not is_told)


def _unreachable(error: httpx2.TransportError, client: httpx2.AsyncClient) -> SystemFault:
    why = str(error) or type(error).__name__
    return SystemFault(f"{client.base_url} cannot be reached: {why}.", hint=_START, retryable=True)


def _nonsense() -> FailedError:
    error = SystemFault("What answered is not this door of Toolyard.", hint=_START)
    return FailedError(error, Reached.UNKNOWN, is_worth_it=False)


def _seconds(after: str | None) -> float | None:
    """A Retry-After: seconds, or a date."""
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
