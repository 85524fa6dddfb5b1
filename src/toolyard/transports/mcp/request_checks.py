"""Checks an HTTP request before it is served: its host, its origin and the framing of its body.

- `Host` and `Origin` are compared as whole names with a numeric port, which prevents DNS rebinding:
  `127.0.0.1:80.evil.example` is another host.
- A request with both `Content-Length` and `Transfer-Encoding` is refused: a proxy may see another end of it.
- A message to `/mcp` with a duplicate key is refused: parsers differ in which value counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolyard.core.errors import SecurityError, ValidationError
from toolyard.core.json_size import MAX_JSON_PARTS, count_json_parts, find_repeated_key
from toolyard.transports.http.errors import RefusedError

PATH = "/mcp"
MAX_BODY_BYTES = 32 << 20
_BAD_REQUEST, _FORBIDDEN, _TOO_LARGE, _MISDIRECTED = 400, 403, 413, 421
_HOST_PATTERN = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\s:/?#@\[\]]+)(?::[0-9]{1,5})?", re.ASCII | re.IGNORECASE)
_ADDRESS_HINT = "Use the address that the server printed, or allow the name with --allow-host."
_CLOSE = {"Connection": "close"}


class RequestChecks:
    """ASGI middleware. `names` are the hosts of this server, IPv6 addresses in brackets."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app = app
        self._names = frozenset(name.lower() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._check_headers(Headers(scope=scope))
        if refused is None and scope["path"] == PATH and scope["method"] == "POST":
            body = await _read_body(receive)
            if body[-1]["type"] == "http.disconnect":  # the client is gone
                return
            refused = _check_body(body)
            receive = _replay_messages(body, receive)
        if refused is None:
            await self._app(scope, receive, send)
        else:
            await _refusal_response(scope, refused)(scope, receive, send)

    def _check_headers(self, headers: Headers) -> RefusedError | None:
        hosts, origin = headers.getlist("host"), headers.get("origin")
        if len(hosts) != 1 or not self._is_own_host(hosts[0]):
            return RefusedError(_MISDIRECTED, SecurityError("Invalid Host header.", hint=_ADDRESS_HINT))
        if origin and not self._is_own_origin(origin):
            return RefusedError(_FORBIDDEN, SecurityError("Invalid Origin header.", hint=_ADDRESS_HINT))
        if "content-length" in headers and "transfer-encoding" in headers:
            why = "was sent together with Content-Length"
            error = ValidationError.of("Transfer-Encoding", why, hint="Send one of the two.")
            return RefusedError(_BAD_REQUEST, error, _CLOSE)
        return None

    def _is_own_host(self, host: str) -> bool:
        match = _HOST_PATTERN.fullmatch(host)
        return match is not None and match["name"].lower() in self._names

    def _is_own_origin(self, origin: str) -> bool:
        scheme, separator, host = origin.partition("://")
        return bool(separator) and scheme.lower() in {"http", "https"} and self._is_own_host(host)


async def _read_body(receive: Receive) -> list[Message]:
    """Reads a body to its end or to the size limit; larger ones are refused later."""
    messages: list[Message] = []
    size = 0
    while True:
        message = await receive()
        messages.append(message)
        size += len(message.get("body", b""))
        if not message.get("more_body", False) or size > MAX_BODY_BYTES:
            return messages


def _check_body(messages: list[Message]) -> RefusedError | None:
    body = b"".join(message.get("body", b"") for message in messages)
    if len(body) > MAX_BODY_BYTES:
        return None
    if len(body) > MAX_JSON_PARTS and count_json_parts(body) > MAX_JSON_PARTS:
        error = ValidationError.of("body", "has too many parts", hint="Send less in one call.")
        return RefusedError(_TOO_LARGE, error)
    key = find_repeated_key(body)
    if key is None:
        return None
    error = ValidationError.of("body", f"has the key {key[:100]!r} twice in one object", hint="Send each key once.")
    return RefusedError(_BAD_REQUEST, error)


def _replay_messages(messages: list[Message], receive: Receive) -> Receive:
    remaining = list(reversed(messages))

    async def replay() -> Message:
        return remaining.pop() if remaining else await receive()

    return replay


def _refusal_response(scope: Scope, refused: RefusedError) -> Response:
    """Returns the refusal: a JSON-RPC error for MCP clients, otherwise an error object."""
    if scope["path"] != PATH:
        return refused.response()
    error = refused.error
    fields = {"code": error.code, "message": error.message, "data": {"hint": error.hint}}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": fields})
    return Response(body, refused.status, refused.headers, "application/json")
