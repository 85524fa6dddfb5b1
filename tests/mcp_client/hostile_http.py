"""A remote server that answers a call with whatever bytes a test hands it, on the loopback, in a thread."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[int], tuple[str, Iterable[bytes]]]
"""From a request's number to the kind of the content and its pieces. More of them may follow than anybody reads."""

_GREETING = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "hostile", "version": "1"},
}
_TOOLS = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("bad", "good")]}


@dataclass
class Hostile:
    url: str
    headers: dict[str, str] = field(default_factory=dict)
    """Sent along with the bad answer."""
    status: int = 200
    """Of the bad answer."""
    challenge: str = ""
    """Everybody is refused with this as WWW-Authenticate."""
    page: bytes = b""
    """Everybody is answered with this, as HTML."""
    seen: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    """Method, path and headers of each request."""


@contextlib.contextmanager
def hostile_server(bad: Answer, tools: Answer | None = None) -> Iterator[Hostile]:
    """Its tool `good` answers "fine", its tool `bad` as `bad` says, and tools/list as `tools` says."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the parent's name
            """Quietly."""

        def do_GET(self) -> None:
            self._note()
            self._send(405, "text/plain", [b""])

        def do_DELETE(self) -> None:
            self.do_GET()

        def do_POST(self) -> None:
            self._note()
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if hostile.challenge:
                self._send(401, "text/plain", [b""], headers={"www-authenticate": hostile.challenge})
                return
            if hostile.page:
                self._send(200, "text/html; charset=utf-8", [hostile.page])
                return
            method, number = message["method"], message.get("id")
            if number is None:
                self._send(202, "text/plain", [b""])
            elif method == "initialize":
                self._result(number, _GREETING)
            elif method == "tools/list":
                self._result(number, _TOOLS) if tools is None else self._send(200, *tools(number))
            elif method == "tools/call" and message["params"]["name"] == "bad":
                self._send(hostile.status, *bad(number), headers=hostile.headers)
            elif method == "tools/call":
                self._result(number, {"content": [{"type": "text", "text": "fine"}]})
            else:
                error = {"code": -32601, "message": "no such method"}
                self._send(200, "application/json", [_json({"jsonrpc": "2.0", "id": number, "error": error})])

        def _note(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            hostile.seen.append((self.command, self.path, headers))

        def _result(self, number: int, result: dict[str, Any]) -> None:
            self._send(200, "application/json", [_json({"jsonrpc": "2.0", "id": number, "result": result})])

        def _send(
            self, status: int, kind: str, pieces: Iterable[bytes], headers: dict[str, str] | None = None
        ) -> None:
            with contextlib.suppress(OSError):
                self.send_response(status)
                for name, value in {"content-type": kind, **(headers or {})}.items():
                    self.send_header(name, value)
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for piece in pieces:
                    if piece:
                        self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                self.wfile.write(b"0\r\n\r\n")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hostile = Hostile(f"http://127.0.0.1:{server.server_port}/mcp")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hostile
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def _json(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode()
