"""A loopback proxy that adds the bearer token: the conformance suite has no option for headers of its own."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import threading
import urllib.parse
from collections.abc import Callable, Iterator

import pytest

UPSTREAM_SECONDS = 60
CHUNK = 1 << 16
HUNG_UP = (BrokenPipeError, ConnectionResetError, http.client.IncompleteRead)
HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "date"})


def _handler(upstream: str, token: str) -> type[http.server.BaseHTTPRequestHandler]:
    target = urllib.parse.urlsplit(upstream)

    class Proxy(http.server.BaseHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            """Says nothing."""

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            connection = http.client.HTTPConnection(target.hostname, target.port, timeout=UPSTREAM_SECONDS)
            with contextlib.closing(connection), contextlib.suppress(*HUNG_UP):
                # Host and Origin go through as they came: the suite tests what we say to foreign ones.
                connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() not in {"authorization", "content-length", "connection"}:
                        connection.putheader(name, value)
                connection.putheader("Authorization", f"Bearer {token}")
                connection.putheader("Content-Length", str(len(body)))
                connection.endheaders(body)
                self.relay(connection.getresponse())

        def relay(self, response: http.client.HTTPResponse) -> None:
            self.send_response(response.status)
            for name, value in response.getheaders():
                if name.lower() not in HOP_BY_HOP:
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            while chunk := response.read1(CHUNK):
                self.wfile.write(chunk)
                self.wfile.flush()

        do_GET = do_POST = do_DELETE = do_OPTIONS = do_PUT = forward  # noqa: N815 - the base class's names

    return Proxy


@pytest.fixture
def with_bearer() -> Callable[[str, str], contextlib.AbstractContextManager[str]]:
    """The address of a proxy in front of `upstream`."""

    @contextlib.contextmanager
    def opened(upstream: str, token: str) -> Iterator[str]:
        proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(upstream, token))
        proxy.daemon_threads = True
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{proxy.server_port}{urllib.parse.urlsplit(upstream).path}"
        finally:
            proxy.shutdown()
            thread.join()
            proxy.server_close()

    return opened
