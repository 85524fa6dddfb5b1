"""A plain MCP client over streamable HTTP, and the server process it talks to. It exposes messages as received.

`HttpServer` owns the process it starts: `close()` terminates it and waits. `HttpClient` owns one connection; it
speaks the handshake protocol (with a session) or, with `modern`, the stateless one. Requests of the server in the
middle of a call go to `on_request`, and a separate POST sends the answer, as the protocol requires.
"""

from __future__ import annotations

import base64
import http.client
import json
import subprocess
from collections.abc import Generator, Mapping, Sequence
from typing import IO, Any, cast
from urllib.parse import urlsplit

from toolyard.core.closeable import Closeable
from toolyard.testing.mcp_client import HANDSHAKE_VERSION, MODERN_VERSION, ServerGone

_CLOSE_SECONDS = 10
_ANSWER_SECONDS = 60
_META = "io.modelcontextprotocol/"
_NAME_KEYS = {"tools/call": "name", "resources/read": "uri", "prompts/get": "name"}
_PRINTABLE = frozenset(map(chr, range(0x20, 0x7F)))


class HttpServer(Closeable):
    """A `toolyard mcp --http` process; `url` is the address that it prints."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=dict(env)
        )
        self._errors = cast("IO[bytes]", self.process.stderr)
        first_line = self._errors.readline().decode()
        if " at http" not in first_line:
            self.close()
            raise ServerGone(first_line)
        self.url = first_line.rsplit(" at ", 1)[1].strip()

    def close(self) -> int:
        """Terminates the server; returns its exit code."""
        self.process.terminate()
        try:
            code = self.process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self._errors.close()
        return code


class HttpClient(Closeable):
    """One conversation with the server at `url`."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        modern: bool = False,
        capabilities: Mapping[str, Any] | None = None,
        client_name: str = "toolyard-testing",
    ) -> None:
        parts = urlsplit(url)
        self._host, self._port, self._path = parts.hostname or "", parts.port or 0, parts.path
        self._token = token
        self._modern = modern
        self._capabilities = dict(capabilities or {})
        self._info = {"name": client_name, "version": "1"}
        self._session = ""
        self._last_id = 0
        self._connection: http.client.HTTPConnection | None = None
        self.initialize_response: dict[str, Any] = {}
        if not modern:
            params = {
                "protocolVersion": HANDSHAKE_VERSION,
                "capabilities": self._capabilities,
                "clientInfo": self._info,
            }
            self.initialize_response = self.request("initialize", params)
            self._send_message({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def send_bytes(self, body: bytes, headers: Mapping[str, str] | None = None) -> tuple[int, bytes]:
        """Sends a raw body on a new connection; returns status and body of the answer."""
        connection = self._connect()
        try:
            connection.request("POST", self._path, body, {**self._headers(), **(headers or {})})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Sends a request; returns the response message unchanged."""
        self._last_id += 1
        body = dict(params or {})
        if self._modern:
            envelope = {
                f"{_META}protocolVersion": MODERN_VERSION,
                f"{_META}clientCapabilities": self._capabilities,
                f"{_META}clientInfo": self._info,
            }
            body["_meta"] = {**envelope, **body.get("_meta", {})}
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": body}
        response = self._post(
            json.dumps(message).encode(), {**self._headers(), **self._routing_headers(method, body)}
        )
        self._session = response.headers.get("mcp-session-id") or self._session
        answer: dict[str, Any] | None = None
        for received in _messages(response):
            if "method" in received:
                if "id" in received:
                    self._send_message({"jsonrpc": "2.0", "id": received["id"], **self.on_request(received)})
            elif received.get("id") in {self._last_id, None}:
                answer = received
        if answer is None:
            raise ServerGone(f"HTTP {response.status} without an answer")
        return answer

    def _post(self, data: bytes, headers: dict[str, str]) -> http.client.HTTPResponse:
        """Posts over the kept connection, or over a new one if the server has closed it as idle."""
        if self._connection is not None:
            try:
                self._connection.request("POST", self._path, data, headers)
            except (BrokenPipeError, ConnectionResetError):
                self._connection.close()
            else:
                return self._connection.getresponse()
        self._connection = self._connect()
        self._connection.request("POST", self._path, data, headers)
        return self._connection.getresponse()

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Calls a tool; returns the whole response, result or error."""
        return self.request("tools/call", {"name": tool, "arguments": arguments})

    def on_request(self, message: dict[str, Any]) -> dict[str, Any]:
        """Returns the answer to a request of the server; override it to answer questions."""
        del message
        return {"error": {"code": -32601, "message": "not supported"}}

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._host, self._port, timeout=_ANSWER_SECONDS)

    def _headers(self) -> dict[str, str]:
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": MODERN_VERSION if self._modern else HANDSHAKE_VERSION,
        }
        return {**headers, "Mcp-Session-Id": self._session} if self._session else headers

    def _routing_headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        """Returns the headers in which the modern protocol repeats method and name for proxies."""
        if not self._modern:
            return {}
        name = params.get(_NAME_KEYS.get(method, ""))
        return (
            {"Mcp-Method": method}
            if not isinstance(name, str)
            else {"Mcp-Method": method, "Mcp-Name": _header_value(name)}
        )

    def _send_message(self, message: Mapping[str, Any]) -> None:
        self.send_bytes(json.dumps(message).encode())


def _messages(response: http.client.HTTPResponse) -> Generator[dict[str, Any]]:
    """Yields the JSON-RPC messages of a response, whether it is one message or an event stream."""
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        raw = response.read()
        if raw:
            yield cast("dict[str, Any]", json.loads(raw))
        return
    for line in response:
        if line.startswith(b"data:") and line[5:].strip():
            yield cast("dict[str, Any]", json.loads(line[5:]))


def _header_value(name: str) -> str:
    """Returns a name as a header value, Base64-encoded if it has characters that a header cannot hold."""
    if set(name) <= _PRINTABLE and name == name.strip():
        return name
    return f"=?base64?{base64.b64encode(name.encode('utf-8', 'surrogatepass')).decode()}?="
