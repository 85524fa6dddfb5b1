"""Calling a tool through the door, and again where that is worth it.

Each attempt is one request on a connection of its own, which is closed when the attempt ends: a caller that is
cancelled cancels the tool. What is tried again:

- a connection that was never made, and what was refused before anything ran: 429, and a retryable error with
  `"ran": false`;
- where the server says that the tool does the same when it is run twice: a connection that broke before any line
  came, 502, 503, 504, and a retryable error.

Another tool is not called again once the request may have reached it. Nobody knows then whether it ran, and the error
says so.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolyard.core.errors import SystemFault, ToolyardError, ValidationError

if TYPE_CHECKING:
    import httpx2

    from toolyard.transports.http.client_attempt import Attempt, AttemptError, Line, OnLine

_CONNECT_SECONDS = 10.0
_SILENCE_SECONDS = 600.0  # a call tells once a second that it runs, except while somebody is asked
_MCP_PATH = "/mcp"
_UNSURE_HINT = "It is not known whether the tool ran: look before calling it again."


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait before another attempt: twice as long each time, up to a bound, less a random part."""

    first_seconds: float = 0.25
    most_seconds: float = 30.0
    """Also the longest that a server may put us off. When it wants longer, that is the end."""

    def seconds(self, failures: int) -> float:
        most = min(self.first_seconds * 2 ** (failures - 1), self.most_seconds)
        return random.uniform(most / 2, most)  # noqa: S311 - to part callers, not to keep a secret


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """What a tool gave back: `content` for a reader, `structured` for a program."""

    content: list[dict[str, Any]]
    structured: dict[str, Any]
    attempts: int

    @property
    def text(self) -> str:
        return "\n".join(part["text"] for part in self.content if part.get("type") == "text")


async def execute_tool_with_retry(
    url: str,
    token: str,
    tool: str,
    args: Mapping[str, Any] | None = None,
    *,
    attempts: int = 4,
    on_line: OnLine | None = None,
    backoff: Backoff | None = None,
    repeatable: bool | None = None,
) -> ExecutionResult:
    """Run a tool of the server at `url`; `on_line` gets each line as it comes, of every attempt.

    `repeatable` says whether the tool may be run twice; left out, the server is asked when it matters. Raises the
    ToolyardError of the last attempt: what the server said, or a SystemFault where it did not answer.
    """
    if attempts < 1:
        raise ValidationError.of("attempts", "is less than 1", hint="Leave it out for the usual number.")
    import httpx2  # half a second that only callers need

    from toolyard.transports.http.client_attempt import Attempt

    async with httpx2.AsyncClient(
        base_url=_base_url(url),
        headers={"Authorization": f"Bearer {token}"},
        timeout=httpx2.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS),
        limits=httpx2.Limits(max_keepalive_connections=0),
        trust_env=False,  # the token goes to the server and to no proxy
    ) as client:
        retrying = _RetryLoop(Attempt(client, tool, dict(args or {}), on_line), repeatable)
        return await retrying.run(attempts, backoff or Backoff())


def _base_url(url: str) -> httpx2.URL:
    import httpx2

    try:
        base = httpx2.URL(url.rstrip("/").removesuffix(_MCP_PATH))
    except httpx2.InvalidURL:
        base = httpx2.URL()
    if base.scheme not in {"http", "https"} or not base.host:
        raise ValidationError.of("url", "is not an address of HTTP", hint="Send one such as http://127.0.0.1:8765.")
    return base


class _RetryLoop:
    def __init__(self, attempt: Attempt, repeatable: bool | None) -> None:
        self._attempt = attempt
        self._repeatable = repeatable
        self._first_reached: AttemptError | None = None
        """The first attempt that may have run the tool."""

    async def run(self, attempts: int, backoff: Backoff) -> ExecutionResult:
        from toolyard.transports.http.client_attempt import AttemptError, ToolRan

        for number in range(1, attempts + 1):
            try:
                line = await self._try_once()
            except AttemptError as failed:
                if failed.tool_ran is not ToolRan.NO and self._first_reached is None:
                    self._first_reached = failed
                wait = backoff.seconds(number) if failed.retry_after is None else failed.retry_after
                is_over = number == attempts or wait > backoff.most_seconds
                if is_over or not failed.is_retryable or self._must_not_repeat():
                    raise self._final_error(failed) from failed
            else:
                return ExecutionResult(list(line.get("content", ())), dict(line.get("structured", {})), number)
            await asyncio.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    async def _try_once(self) -> Line:
        if self._first_reached is not None and self._repeatable is None:
            self._repeatable = await self._attempt.is_repeatable()
        if self._first_reached is not None and self._must_not_repeat():
            self._first_reached.is_retryable = False
            raise self._first_reached
        return await self._attempt.run()

    def _must_not_repeat(self) -> bool:
        return self._first_reached is not None and self._repeatable is False

    def _final_error(self, last: AttemptError) -> ToolyardError:
        """The last error; where a tool that must not run twice may have run, that one, and that it may have."""
        from toolyard.transports.http.client_attempt import ToolRan

        first = self._first_reached
        if first is None or self._repeatable:
            return last.error
        if first.tool_ran is ToolRan.UNKNOWN:
            return SystemFault(first.error.message, hint=_UNSURE_HINT)
        return first.error
