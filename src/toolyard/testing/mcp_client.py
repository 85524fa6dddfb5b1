"""A plain MCP client over a server's stdin and stdout. Owns the process it starts.

It speaks the handshake protocol (2025-11-25) or, with `modern`, the stateless one (2026-07-28). It exposes every
message as received, which an SDK client would normalise. `close()` ends the server and waits for it.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO, Any, cast

from toolyard.core.closeable import Closeable

HANDSHAKE_VERSION = "2025-11-25"
MODERN_VERSION = "2026-07-28"
_CLOSE_SECONDS = 10
_META = "io.modelcontextprotocol/"


class ServerGone(Exception):  # noqa: N818 - named for what happened
    """The server closed its output."""


def error_in(response: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the error of a response in the shape of a JSON-RPC error, whichever form the server uses; None for a
    success.
    """
    if "error" in response:
        return cast("dict[str, Any]", response["error"])
    result = cast("dict[str, Any]", response["result"])
    structured = cast("dict[str, Any]", result.get("structuredContent") or {})
    if not result.get("isError") or not isinstance(structured.get("error"), dict):
        return None
    error = cast("dict[str, Any]", structured["error"])
    data = {key: value for key, value in error.items() if key not in {"code", "message"}}
    return {"code": error["code"], "message": result["content"][0]["text"], "data": data}


def expect_error(response: Mapping[str, Any]) -> dict[str, Any]:
    """Asserts that a call failed with a result; returns the error in the shape of `error_in`."""
    error = error_in(response)
    assert error is not None, response
    assert "result" in response, response
    return error


def expect_result(response: Mapping[str, Any]) -> dict[str, Any]:
    """Asserts that a call succeeded; returns its result."""
    assert "result" in response, response
    assert not response["result"]["isError"], response
    return cast("dict[str, Any]", response["result"])


class StdioClient(Closeable):
    """One server process and the conversation with it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        modern: bool = False,
        env: Mapping[str, str] | None = None,
        capabilities: Mapping[str, Any] | None = None,
        client_name: str = "toolyard-testing",
        cwd: str | None = None,
    ) -> None:
        self.process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(env) if env is not None else None,
            cwd=cwd,
        )
        self._in = cast("IO[bytes]", self.process.stdin)
        self._out = cast("IO[bytes]", self.process.stdout)
        self._last_id = 0
        self._modern = modern
        self._capabilities = dict(capabilities or {})
        self._info = {"name": client_name, "version": "1"}
        self.notifications: list[dict[str, Any]] = []
        self.initialize_response: dict[str, Any] = {}
        if not modern:
            params = {
                "protocolVersion": HANDSHAKE_VERSION,
                "capabilities": self._capabilities,
                "clientInfo": self._info,
            }
            self.initialize_response = self.request("initialize", params)
            self.notify("notifications/initialized", {})

    def close(self) -> int:
        """Ends the conversation; returns the server's exit code."""
        with contextlib.suppress(BrokenPipeError):  # the server may exit before it has read everything
            self._in.close()
        try:
            code = self.process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self._out.close()
        return code

    def send(self, message: Mapping[str, Any]) -> None:
        """Sends one message."""
        self.send_bytes(json.dumps(message).encode())

    def send_bytes(self, line: bytes) -> None:
        """Sends one raw line."""
        self._in.write(line + b"\n")
        self._in.flush()

    def receive(self) -> dict[str, Any]:
        """Reads the next message. Raises ServerGone at the end of the output."""
        line = self._out.readline()
        if not line:
            raise ServerGone
        return cast("dict[str, Any]", json.loads(line))

    def send_request(self, method: str, params: Mapping[str, Any]) -> int:
        """Sends a request without waiting; returns its id."""
        self._last_id += 1
        body = dict(params)
        if self._modern:
            envelope = {
                f"{_META}protocolVersion": MODERN_VERSION,
                f"{_META}clientCapabilities": self._capabilities,
                f"{_META}clientInfo": self._info,
            }
            body["_meta"] = {**envelope, **body.get("_meta", {})}
        self.send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": body})
        return self._last_id

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Sends a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": dict(params)})

    def wait_for_response(self, request: int) -> dict[str, Any]:
        """Reads until the response to a request arrives; collects notifications and answers requests of the
        server.
        """
        while True:
            message = self.receive()
            if "method" in message:
                if "id" in message:
                    self.send({"jsonrpc": "2.0", "id": message["id"], **self.on_request(message)})
                else:
                    self.notifications.append(message)
            elif message.get("id") == request:
                return message

    def on_request(self, message: dict[str, Any]) -> dict[str, Any]:
        """Returns the answer to a request of the server; override it to answer questions."""
        if message["method"] == "roots/list":
            return {"result": {"roots": []}}
        return {"error": {"code": -32601, "message": "not supported"}}

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Sends a request; returns its response."""
        return self.wait_for_response(self.send_request(method, params or {}))

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Calls a tool; returns the whole response, result or error."""
        return self.request("tools/call", {"name": tool, "arguments": arguments})
