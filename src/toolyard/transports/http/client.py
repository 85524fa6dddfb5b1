"""Client of the HTTP API, with retries.

Each attempt is one request on its own connection, which is closed when the attempt ends: cancelling the caller
cancels the tool. It retries

- a failed connection, and a request that was refused before anything ran: 429, or a retryable error with
  `"ran": false`;
- if the server declares the tool idempotent: a connection that broke before any line came, 502, 503, 504, and a
  retryable error.

Any other tool is not called again once the request may have reached it. The error then says that the tool may have
run.
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
_SILENCE_SECONDS = 600.0  # a call reports progress once a second, except while it waits for an approval
_MCP_PATH = "/mcp"
_UNSURE_HINT = "It is not known whether the tool ran: check before calling it again."


@dataclass(frozen=True, slots=True)
class Backoff:
    """The wait before another attempt: doubles each time up to a maximum, minus a random part."""

    first_seconds: float = 0.25
    most_seconds: float = 30.0
    """Also the longest `Retry-After` that is honoured. A longer one ends the attempts."""

    def seconds(self, failures: int) -> float:
        most = min(self.first_seconds * 2 ** (failures - 1), self.most_seconds)
        return random.uniform(most / 2, most)  # noqa: S311 - spreads callers; not a secret


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """The result of a tool: `content` for people, `structured` for programs."""

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
    """Runs a tool of the server at `url`; `on_line` gets each line of every attempt as it arrives.

    `repeatable` says whether the tool may run twice; by default the server is asked if necessary. Raises the
    ToolyardError of the last attempt: the server's error, or a SystemFault if it did not answer.
    """
    if attempts < 1:
        raise ValidationError.of("attempts", "is less than 1", hint="Leave it out for the default.")
    import httpx2  # takes half a second, and only clients need it

    from toolyard.transports.http.client_attempt import Attempt

    async with httpx2.AsyncClient(
        base_url=_base_url(url),
        headers={"Authorization": f"Bearer {token}"},
        timeout=httpx2.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS),
        limits=httpx2.Limits(max_keepalive_connections=0),
        trust_env=False,  # the token must only reach the server, not a proxy
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
        raise ValidationError.of("url", "is not an HTTP address", hint="Send one such as http://127.0.0.1:8765.")
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
        """Returns the last error, or the first that may have run a tool that must not run twice."""
        from toolyard.transports.http.client_attempt import ToolRan

        first = self._first_reached
        if first is None or self._repeatable:
            return last.error
        if first.tool_ran is ToolRan.UNKNOWN:
            return SystemFault(first.error.message, hint=_UNSURE_HINT)
        return first.error
