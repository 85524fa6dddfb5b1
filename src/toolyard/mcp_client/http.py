"""A remote server, over streamable HTTP or the older SSE transport, through the MCP SDK's client.

An `HttpConnection` owns one task, which enters and exits the SDK's client: cancel scopes must be left in the task
that entered them. Calls come from any task of the loop. If the connection breaks, that task ends, pending calls fail
and the owner is notified. `response_limits` bounds every answer before the SDK reads it.

Importing this module imports the SDK's client, which takes seconds on a busy machine, so it is imported in a thread
with the first remote server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.session import IncomingMessage
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, HEADER_MISMATCH, REQUEST_TIMEOUT
from pydantic import TypeAdapter, ValidationError

from toolyard.config.models import ServerEntry
from toolyard.core.limits import MIB
from toolyard.core.upstream import ServerListing, UpstreamProgress, UpstreamResult
from toolyard.mcp_client.connection import ConnectionCallbacks, HandshakeResult, report_progress
from toolyard.mcp_client.errors import (
    CallFailed,
    CallRefused,
    CallTimedOut,
    RpcError,
    ServerMisbehaved,
    ServerUnavailable,
    call_failure,
    invalid_result_error,
    without_server_name,
)
from toolyard.mcp_client.negotiation import CLIENT_INFO, MODERN_VERSION
from toolyard.mcp_client.network_hints import remote_network_hint
from toolyard.mcp_client.oauth import SignIn
from toolyard.mcp_client.response_limits import REFUSAL_PREFIX, ResponseLimits
from toolyard.mcp_client.results import SecretMask, fetch_all_tools, masked_listing, tool_answer
from toolyard.mcp_client.stderr_tail import OutputTail

_RESULT = TypeAdapter[types.CallToolResult | types.InputRequiredResult](
    types.CallToolResult | types.InputRequiredResult
)
_CONNECT_SECONDS = 30.0
_STREAM_SECONDS = 3_600.0
"""Maximum silence on a stream; calls have their own timeouts."""
_OLD_EVENT_BYTES = 1 * MIB
"""Message size over the older SSE transport: the SDK's client closes the connection at larger ones."""
_CLOSE_SECONDS = 3.0
_UNWIND_SECONDS = 1.0
"""From a failed call until the client has reported whether the connection is broken."""
_UNAUTHORIZED = (401, 403)
_CHALLENGE, _METADATA = "resource_metadata", "/.well-known/"
"""Signs that a server offers OAuth: in its challenge, or at a well-known address."""
_NOT_FOUND = 404
_EXPECTED_MEDIA = ("", "application/json", "text/event-stream")
"""Media types of the protocol; empty without a response."""
_MEDIA_CHARS = 40
_SERVER_ERROR = 500
_BROKEN_PREFIXES = ("Connection closed", "SSE stream")
"""How the SDK's messages for a broken connection start."""

# Without a handler these libraries would print tracebacks to stderr.
for _name in ("mcp", "httpx2"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


class HttpConnection:
    """Connection to one remote server."""

    can_run_eagerly = False

    def __init__(
        self, entry: ServerEntry, mask: SecretMask, tail: OutputTail, callbacks: ConnectionCallbacks, sign_in: SignIn
    ) -> None:
        self._server = entry.name
        self._entry = entry
        self._mask = mask
        self._tail = tail
        self._callbacks = callbacks
        self._sign_in = sign_in
        self._stop = asyncio.Event()
        self._closing = False
        self._last_status = 0
        self._last_media = ""
        self._unauthorized = 0
        self._searched_sign_in = self._offers_sign_in = False
        self._limits = ResponseLimits(_OLD_EVENT_BYTES) if entry.transport == "sse" else ResponseLimits()
        self.handshake = HandshakeResult("")
        self._client: Client | None = None
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[Client] = loop.create_future()
        self._client_task = loop.create_task(self._run_client())
        self._client_task.add_done_callback(self._on_client_end)

    @classmethod
    async def open(
        cls,
        entry: ServerEntry,
        mask: SecretMask,
        tail: OutputTail,
        callbacks: ConnectionCallbacks,
        *,
        sign_in: SignIn,
        seconds: float,
    ) -> HttpConnection:
        """Connects and initializes. Time that the user needs to sign in does not count."""
        connection = cls(entry, mask, tail, callbacks, sign_in)
        try:
            async with asyncio.timeout(seconds) as deadline:
                sign_in.deadline = deadline
                await asyncio.shield(connection._ready)
        except TimeoutError:
            await connection.close()
            raise connection._unavailable(f"did not answer within {seconds:g} s") from None
        except BaseException:
            await connection.close()
            raise
        finally:
            sign_in.deadline = None
        return connection

    @property
    def pid(self) -> int | None:
        return None

    async def call(
        self, tool: str, arguments: Mapping[str, Any], seconds: float, progress: UpstreamProgress | None
    ) -> UpstreamResult:
        try:
            try:
                result = await self._send_call(tool, arguments, seconds, progress)
            except MCPError as error:
                if error.code != HEADER_MISMATCH:
                    raise
                # The server requires some arguments as headers too; the client learns which from the tool list.
                await self._require_client().list_tools()
                result = await self._send_call(tool, arguments, seconds, progress)
        except MCPError as error:
            raise await self._call_error(tool, error, seconds) from None
        except ValidationError:
            raise invalid_result_error(self._server, tool) from None
        return tool_answer(self._server, tool, result, self._mask)

    async def _send_call(
        self, tool: str, arguments: Mapping[str, Any], seconds: float, listener: UpstreamProgress | None
    ) -> Mapping[str, Any]:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            if listener is not None:
                report_progress(listener, progress, total, self._mask(message or ""))

        result = await self._require_client().session.send_request(
            types.CallToolRequest(params=types.CallToolRequestParams(name=tool, arguments=dict(arguments))),
            _RESULT,
            request_read_timeout_seconds=seconds,
            progress_callback=on_progress if listener is not None else None,
        )
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)

    async def server_listing(self, seconds: float) -> ServerListing:
        async def page(cursor: str | None) -> Mapping[str, Any]:
            result = await self._require_client().session.list_tools(
                params=types.PaginatedRequestParams(cursor=cursor)
            )
            return result.model_dump(by_alias=True, mode="json", exclude_none=True)

        try:
            async with asyncio.timeout(seconds):
                tools = await fetch_all_tools(
                    self._server, page, self._tail.add_stray_line, lambda: self._limits.received_bytes
                )
        except TimeoutError:
            raise CallTimedOut(self._server, "tools/list", seconds) from None
        except ValidationError:
            raise ServerMisbehaved(self._server, "lists its tools in a form that violates the protocol") from None
        except MCPError as error:
            failure = await self._call_error("tools/list", error, seconds)
            why = without_server_name(self._server, str(failure))
            raise ServerMisbehaved(self._server, f"did not list its tools: {why}") from None
        return masked_listing(self.handshake.make_listing(self._server, tools), self._mask)

    async def close(self) -> None:
        self._closing = True
        self._stop.set()
        done, _ = await asyncio.wait((self._client_task,), timeout=_CLOSE_SECONDS)
        if not done:
            self._client_task.cancel()
            await asyncio.wait((self._client_task,), timeout=_CLOSE_SECONDS)

    def _require_client(self) -> Client:
        if self._client is None or self._closing:
            raise self._unavailable("is being closed")
        return self._client

    async def _run_client(self) -> None:
        """Enters the client, keeps it until it is stopped or breaks, and exits it."""
        async with contextlib.AsyncExitStack() as stack:
            transport = await self._open_transport(stack)
            client = await stack.enter_async_context(
                Client(
                    transport,
                    # servers of the older transport only support the handshake
                    mode="legacy" if self._entry.transport == "sse" else "auto",
                    cache=None,
                    client_info=types.Implementation(name=CLIENT_INFO["name"], version=CLIENT_INFO["version"]),
                    message_handler=self._on_message,
                )
            )
            info, tools = client.server_info, client.server_capabilities.tools
            self.handshake = HandshakeResult(
                client.protocol_version,
                info.version if info is not None else "",
                client.instructions or "",
                bool(tools and tools.list_changed),
            )
            self._client = client
            if self.handshake.protocol == MODERN_VERSION and self.handshake.announces_changes:
                listener = asyncio.get_running_loop().create_task(self._listen(client))
                stack.callback(listener.cancel)
            self._ready.set_result(client)
            await self._stop.wait()

    async def _open_transport(self, stack: contextlib.AsyncExitStack) -> Any:
        url, auth = self._entry.url or "", await self._sign_in.auth()
        self._searched_sign_in = auth is not None  # with auth, the SDK searches all places that announce a sign-in

        def http_client(
            headers: dict[str, str] | None = None,
            timeout: httpx2.Timeout | None = None,
            auth: httpx2.Auth | None = auth,
        ) -> httpx2.AsyncClient:
            return httpx2.AsyncClient(
                headers={**self._entry.headers, **(headers or {})},
                timeout=timeout or httpx2.Timeout(_CONNECT_SECONDS, read=_STREAM_SECONDS),
                auth=auth,
                event_hooks={
                    "request": [self._sign_in.check_request, self._limits.request_identity_encoding],
                    "response": [self._on_response],
                },
            )

        if self._entry.transport == "sse":
            return sse_client(
                url,
                timeout=_CONNECT_SECONDS,
                sse_read_timeout=_STREAM_SECONDS,
                httpx_client_factory=http_client,
                auth=auth,
            )
        client = await stack.enter_async_context(http_client())
        return streamable_http_client(url, http_client=client, max_sse_event_size=None)  # `ResponseLimits` apply

    async def _on_response(self, response: httpx2.Response) -> None:
        """Records the status, which the SDK does not report for a failed call, and applies the limits."""
        self._note_sign_in(response)
        # Many servers refuse the optional GET stream. That is not a failure.
        if response.request.method != "GET" or self._entry.transport == "sse":
            self._last_status = response.status_code
            self._last_media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        await self._limits.apply(response)

    def _note_sign_in(self, response: httpx2.Response) -> None:
        if response.status_code in _UNAUTHORIZED:
            self._unauthorized = response.status_code
            self._offers_sign_in |= _CHALLENGE in response.headers.get("www-authenticate", "").lower()
        elif response.is_success and _METADATA in response.request.url.path:
            self._offers_sign_in |= "json" in response.headers.get("content-type", "").lower()

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._callbacks.on_list_changed()

    async def _listen(self, client: Client) -> None:
        """Subscribes to changes of the tool list (2026-07-28). A failure is ignored."""
        with contextlib.suppress(Exception):
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in cast("AsyncIterator[object]", changes):
                    self._callbacks.on_list_changed()

    def _on_client_end(self, task: asyncio.Task[None]) -> None:
        error = task.exception() if not task.cancelled() else None
        failure = self._connection_error(error)
        if not self._ready.done():
            self._ready.set_exception(failure)
            self._ready.exception()  # marks it as retrieved: the opener may be gone
        elif not self._closing:
            self._closing = True
            self._callbacks.on_lost(failure)

    async def _call_error(
        self, tool: str, error: Any, seconds: float
    ) -> ServerUnavailable | CallFailed | CallRefused:
        if error.code == REQUEST_TIMEOUT:
            return CallTimedOut(self._server, tool, seconds)
        if error.message.startswith(REFUSAL_PREFIX):
            hint = "Ask for less in one call."
            return ServerMisbehaved(self._server, error.message, hint=hint, retryable=False)
        if error.code == CONNECTION_CLOSED:  # or an error of the server with the same code
            await asyncio.wait((self._client_task,), timeout=_UNWIND_SECONDS)
            if self._client_task.done():
                return self._connection_error(
                    self._client_task.exception() if not self._client_task.cancelled() else None
                )
            if error.message.startswith(_BROKEN_PREFIXES):
                return self._abandon_session("closed the connection")
        if self._last_status in _UNAUTHORIZED:
            return self._connection_error(None)
        if self._last_status == _NOT_FOUND or self._last_status >= _SERVER_ERROR:
            return self._abandon_session(f"answered HTTP {self._last_status}")
        return call_failure(self._server, tool, RpcError(error.code, self._mask(error.message)))

    def _abandon_session(self, what: str) -> ServerUnavailable:
        """Closes a broken session; the next call opens a new one."""
        if not self._closing:
            self._closing = True
            self._stop.set()
            self._callbacks.on_lost(self._unavailable(what))
        return self._unavailable(what)

    def _connection_error(self, error: BaseException | None) -> ServerUnavailable:
        """Explains why the client ended. Never quotes the exception: it may contain an address or a header."""
        causes = _leaf_errors(error)
        ours = next((cause for cause in causes if isinstance(cause, ServerUnavailable)), None)
        if ours is not None:
            return ours
        if self._last_status in _UNAUTHORIZED or any("OAuth" in type(cause).__name__ for cause in causes):
            return ServerUnavailable(
                self._server,
                f"requires authentication (HTTP {self._unauthorized or self._last_status})",
                hint=self._authentication_hint(),
                retryable=False,
            )
        if self._last_status >= 400:
            return self._unavailable(f"answered HTTP {self._last_status}")
        if self._last_media not in _EXPECTED_MEDIA:
            return self._unavailable(f"answers with {self._last_media[:_MEDIA_CHARS]}, which is not MCP")
        kinds = ", ".join(sorted({type(cause).__name__ for cause in causes}))
        hint = remote_network_hint("\n".join(f"{type(cause).__name__}: {cause}" for cause in causes))
        return self._unavailable(f"cannot be reached ({kinds})" if kinds else "closed the connection", hint)

    def _authentication_hint(self) -> str:
        agreed = self._entry.oauth
        if any(name.lower() == "authorization" for name in self._entry.headers):
            return "Check `Authorization` in the `headers` of its entry."
        if self._offers_sign_in:
            return "Set its key in `headers`, or sign in with `toolyard sync` in a terminal."
        needs = "set its key in the `headers` of its entry"
        if self._searched_sign_in or (agreed is not None and not agreed.enabled):
            return f"It offers no sign-in: {needs}."
        return f"Its answer offers no sign-in: {needs}. (`toolyard sync` in a terminal looks for one elsewhere, too.)"

    def _unavailable(self, what: str, hint: str = "") -> ServerUnavailable:
        host = urlsplit(self._entry.url or "").hostname
        usual = "Check that it is running and that `url` is right."
        return ServerUnavailable(self._server, f"at {host} {what}", hint=hint or usual)


def _leaf_errors(error: BaseException | None) -> list[BaseException]:
    """Returns the exceptions in an exception group."""
    if error is None:
        return []
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return [leaf for inner in group.exceptions for leaf in _leaf_errors(inner)]
    return [error]
