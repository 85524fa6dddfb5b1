"""Middleware that shortens the SDK's path for plain tool calls, nearly all of the traffic.

The SDK validates parameters twice and results twice more, with generic models. This middleware answers a call with
plainly valid parameters directly, in the form the SDK would produce. Everything else takes the SDK's path: unknown
parameters, answers to elicitations, clients of protocol 2026-07-28 that support elicitation, and invalid calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_types import SERVER_INFO_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolyard.core.calls import Result
from toolyard.transports.json_encoding import result_json
from toolyard.transports.mcp.fast_path import PLAIN_PARAMETERS

_METHOD = "tools/call"

Context = ServerRequestContext[Any, Any]
RunTool = Callable[[Context, str, dict[str, Any]], Awaitable[Result]]


@dataclass(frozen=True, slots=True)
class PlainCall:
    """A tool call with plainly valid parameters."""

    tool: str
    arguments: dict[str, Any]


class FastCallMiddleware:
    """The middleware. `run` runs a tool; `structured` says whether a client gets structured content."""

    def __init__(
        self, run: RunTool, structured: Callable[[Context], bool], server_info: Callable[[], object]
    ) -> None:
        self._run = run
        self._structured = structured
        self._server_info = server_info

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        call = plain_call(ctx) if ctx.method == _METHOD else None
        if call is None:
            return await call_next(ctx)
        result = await self._run(ctx, call.tool, call.arguments)
        answer = result_json(result, structured=self._structured(ctx))
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            answer["resultType"] = "complete"
            answer["_meta"] = {SERVER_INFO_META_KEY: self._server_info()}
        return answer


def plain_call(context: Context) -> PlainCall | None:
    """Returns the call; None if it needs the SDK."""
    params = context.params
    if params is None or not PLAIN_PARAMETERS.issuperset(params) or not _is_ready(context):
        return None
    if "_meta" in params and context.meta is None:  # malformed
        return None
    tool, arguments = params.get("name"), params.get("arguments")
    if not isinstance(tool, str) or not isinstance(arguments, dict):
        return None
    return PlainCall(tool, cast("dict[str, Any]", arguments))


def _is_ready(context: Context) -> bool:
    session = context.session
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        capabilities = session.client_capabilities
        return capabilities is None or capabilities.elicitation is None
    return session.client_params is not None  # the handshake is complete
