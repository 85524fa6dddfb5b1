"""The HTTP API of one Yard: routes next to `/mcp`, with the same token, checks, dispatch and policy.

ToolRoutes owns the calls of its clients. Its `lifespan()` wraps that of the application: at the end, running calls
are cancelled and awaited before the Yard may be closed. It does not own the Yard.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import cached_property

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from toolyard.app.yard import Yard
from toolyard.config.suggestions import closest_match
from toolyard.core.calls import Call, Result, deny_without_asking
from toolyard.core.errors import SystemFault, ToolyardError, ValidationError
from toolyard.transports.client_profile import ClientProfile
from toolyard.transports.http.docs_page import HEADERS as PAGE_HEADERS
from toolyard.transports.http.docs_page import docs_page
from toolyard.transports.http.errors import RefusedError
from toolyard.transports.http.event_stream import EventStream
from toolyard.transports.http.openapi import openapi_document
from toolyard.transports.http.request_parser import ExecuteRequest, read_execute_request
from toolyard.transports.http.serializers import tool_catalogue
from toolyard.transports.http.streaming_response import StreamedCalls
from toolyard.transports.json_encoding import encode_json

SURFACE = "http"
_MAX_CALLS = 128  # of one workspace; dispatch has fewer threads
_RETRY_SECONDS = 1
_SHOWN = 100
_TEMPORARY_REDIRECT = 307
NOT_FOUND, NOT_ALLOWED, BUSY = 404, 405, 503
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

Handler = Callable[[Request, Send], Awaitable[Response | None]]


class ToolRoutes:
    """The routes of the HTTP API for one Yard."""

    def __init__(self, yard: Yard, profile: ClientProfile) -> None:
        self._yard = yard
        self._profile = profile
        self._running = StreamedCalls()

    def routes(self) -> list[Route]:
        return [
            Route("/", _Endpoint("GET", _redirect_to_docs)),
            Route("/tools", _Endpoint("GET", self._tools)),
            Route("/execute", _Endpoint("POST", self._execute)),
            Route("/openapi.json", _Endpoint("GET", self._openapi)),
            Route("/docs", _Endpoint("GET", self._docs)),
        ]

    @contextlib.asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """Ends the running calls on exit."""
        try:
            yield
        finally:
            await self._running.close()

    @cached_property
    def _catalogue(self) -> list[dict[str, object]]:
        return tool_catalogue(self._yard.dispatch.tools.values(), self._profile)

    @cached_property
    def _encoded_pages(self) -> dict[str, bytes]:
        """The encoded responses, which do not change while a workspace is served."""
        return {
            "tools": encode_json({"tools": self._catalogue}),
            "openapi": encode_json(openapi_document(self._catalogue)),
            "docs": docs_page(self._catalogue).encode("utf-8", "replace"),
        }

    async def _tools(self, request: Request, send: Send) -> Response:
        del request, send
        self._yard.warm_up()  # a client that lists the tools will soon use them
        return Response(self._encoded_pages["tools"], headers=_HEADERS, media_type="application/json")

    async def _openapi(self, request: Request, send: Send) -> Response:
        del request, send
        return Response(self._encoded_pages["openapi"], headers=_HEADERS, media_type="application/json")

    async def _docs(self, request: Request, send: Send) -> Response:
        del request, send
        return Response(self._encoded_pages["docs"], headers={**_HEADERS, **PAGE_HEADERS}, media_type="text/html")

    async def _execute(self, request: Request, send: Send) -> Response | None:
        execute_request = await read_execute_request(request)
        if execute_request is None:
            return None
        if self._profile.tool_name(execute_request.tool) not in self._yard.dispatch.tools:
            await self._refuse_unknown(execute_request)
        if self._running.count >= _MAX_CALLS:
            error = SystemFault("Too many calls are running.", hint="Try again in a moment.", retryable=True)
            raise RefusedError(BUSY, error, {"Retry-After": str(_RETRY_SECONDS)})
        await self._running.stream_answer(lambda outbox: self._run(execute_request, outbox), request.receive, send)
        return None

    async def _run(self, execute_request: ExecuteRequest, events: EventStream) -> Result:
        return await self._yard.dispatch(
            Call(
                self._profile.tool_name(execute_request.tool),
                execute_request.args,
                SURFACE,
                self._yard.agent,
                SURFACE,
                ask=self._profile.ask or deny_without_asking,
                progress=events.set_progress,
                on_output=events.add_output,
            )
        )

    async def _refuse_unknown(self, execute_request: ExecuteRequest) -> None:
        """Refuses an unknown tool, through dispatch because every call must have its audit event."""
        try:
            await self._run(execute_request, EventStream())
        except ValidationError:
            raise RefusedError(NOT_FOUND, self._unknown_tool_error(execute_request.tool)) from None
        except ToolyardError as error:  # the audit event cannot be recorded
            raise RefusedError(BUSY, error) from error

    def _unknown_tool_error(self, name: str) -> ValidationError:
        meant = closest_match(name, (str(tool["name"]) for tool in self._catalogue))
        hint = f"Did you mean {meant}?" if meant else "GET /tools lists the tools."
        return ValidationError.of("tool_name", f"there is no tool called {name[:_SHOWN]!r}", hint=hint)


async def _redirect_to_docs(request: Request, send: Send) -> Response:
    """Redirects to the docs. The location is relative because a proxy may add a path prefix."""
    del request, send
    return Response(
        "The tools are described at /docs.\n", _TEMPORARY_REDIRECT, {**_HEADERS, "Location": "docs"}, "text/plain"
    )


class _Endpoint:
    """One path. A full ASGI application, so that the response can detect a disconnect."""

    def __init__(self, method: str, handler: Handler) -> None:
        self._method = method
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            self._check_method(request)
            response = await self._handler(request, send)
        except RefusedError as refused:
            response = refused.response()
        if response is not None:
            await response(scope, receive, send)

    def _check_method(self, request: Request) -> None:
        allowed = {"GET", "HEAD"} if self._method == "GET" else {self._method}
        if request.method not in allowed:
            error = ValidationError.of("method", f"is not {self._method}", hint=f"Send {self._method} to this path.")
            raise RefusedError(NOT_ALLOWED, error, {"Allow": ", ".join(sorted(allowed))})
