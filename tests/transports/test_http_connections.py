"""Who holds connections to the server without asking for anything does not keep others out."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import uvicorn
from starlette.types import Message

from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.drivers.mcp_host import Host
from toolyard.transports.mcp import http_connections
from toolyard.transports.mcp.http import ListenAddress, http_app, listen
from toolyard.transports.mcp.request_checks import RequestChecks

SECONDS = 10
HELD = 12


@pytest.fixture
def address(monkeypatch):
    monkeypatch.setattr(http_connections, "max_connections", lambda: HELD)
    monkeypatch.setattr(http_connections, "PATIENCE_SECONDS", 0.2)
    with Host() as host:
        url = urlsplit(host.url)
        yield url.hostname, url.port


@dataclass(frozen=True)
class Served:
    listener: socket.socket
    token: str

    @property
    def address(self) -> tuple[str, int]:
        return self.listener.getsockname()

    def head(self, *extra: str, length: int) -> bytes:
        lines = ("POST /execute HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {self.token}", *extra)
        return "\r\n".join((*lines, "Content-Type: application/json", f"Content-Length: {length}", "", "")).encode()


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A workspace behind a token, at a server that takes HELD connections."""
    monkeypatch.setattr(http_connections, "max_connections", lambda: HELD)
    monkeypatch.setattr(Yard, "warm_up", lambda _: None)
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "long.txt").write_text("a line of some length\n" * 6000)
    options = YardOptions(str(tmp_path / "ws"), Config(), state_home=str(tmp_path / "state"))
    address = ListenAddress("127.0.0.1", 0)
    with Yard.open(options) as yard, contextlib.closing(listen(address)) as listener:
        settings = uvicorn.Config(
            http_app(yard, "right", address),
            http=http_connections.BoundedHttpProtocol,
            log_config=None,
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield Served(listener, "right")
        server.should_exit = True
        thread.join(SECONDS)


def is_gone(port: int) -> bool:
    """Whether this process has closed its end of the connection that comes from a port."""
    lines = Path("/proc/self/net/tcp").read_text().splitlines()[1:]
    ours = [line.split() for line in lines if line.split()[2].endswith(f":{port:04X}")]
    return all(state != "01" for _, _, _, state, *_ in ours)


def held(address, said: bytes) -> socket.socket:
    connection = socket.create_connection(address, timeout=SECONDS)
    connection.sendall(said)
    return connection


def status(address) -> int:
    connection = http.client.HTTPConnection(*address, timeout=SECONDS)
    try:
        connection.request("GET", "/tools")
        return connection.getresponse().status
    finally:
        connection.close()


def is_closed(connection: socket.socket) -> bool:
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    finally:
        connection.close()
    return True


@pytest.mark.parametrize("said", [b"", b"GET /tools HT", b"GET /tools HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /t"])
def test_who_never_finishes_a_request_is_let_go(address, said):
    assert is_closed(held(address, said))


def test_a_connection_that_is_kept_for_the_next_request_is_not_taken_from_under_it(address):
    connection = http.client.HTTPConnection(*address, timeout=SECONDS)
    for _ in range(2):
        connection.request("GET", "/tools")
        connection.getresponse().read()
        time.sleep(5 * http_connections.PATIENCE_SECONDS)
    connection.sock.settimeout(0.1)
    with pytest.raises(TimeoutError):  # open, and nothing to read
        connection.sock.recv(1)
    connection.close()


def test_a_body_that_trickles_in_is_cut_off(served, monkeypatch):
    monkeypatch.setattr(http_connections, "PATIENCE_SECONDS", 0.2)
    connection = held(served.address, served.head(length=1000))
    connection.settimeout(0.05)
    last = time.monotonic() + SECONDS
    with contextlib.suppress(ConnectionError), connection:
        while time.monotonic() < last:
            connection.sendall(b" ")
            with contextlib.suppress(TimeoutError):
                if not connection.recv(1):
                    return
        pytest.fail("a byte at a time holds a connection for as long as one likes")


def test_a_body_that_comes_steadily_is_taken_however_long_that_takes(served, monkeypatch):
    monkeypatch.setattr(http_connections, "PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(http_connections, "MIN_BYTES_PER_SECOND", 100)
    body = b'{"tool_name": "LS"' + b" " * 2000 + b"}"
    with held(served.address, served.head(length=len(body))) as connection:
        for at in range(0, len(body), 100):
            connection.sendall(body[at : at + 100])
            time.sleep(0.05)
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")


def test_bodies_that_never_end_do_not_keep_others_out(served, monkeypatch):
    monkeypatch.setattr(http_connections, "PATIENCE_SECONDS", 1000.0)
    many: list[socket.socket] = []
    for _ in range(HELD):
        many.append(held(served.address, served.head("Expect: 100-continue", length=1000)))
        assert many[-1].recv(100).startswith(b"HTTP/1.1 100 ")  # its body is waited for
    with held(served.address, served.head(length=19) + b'{"tool_name": "LS"}') as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
    assert is_closed(many[0])
    for each in many:
        each.close()


async def test_a_request_whose_client_left_within_the_body_goes_nowhere():
    """The SDK would log an error with its traceback for each."""
    served: list[str] = []
    left = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]

    async def app(*_: object) -> None:
        served.append("served")

    async def receive() -> Message:
        return left.pop(0)

    async def send(message: Message) -> None:
        served.append(message["type"])

    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": [(b"host", b"here")]}
    await RequestChecks(app, ["here"])(scope, receive, send)
    assert served == []


def test_an_answer_that_nobody_takes_is_cut_off(served, monkeypatch, wait_until):
    monkeypatch.setattr(http_connections, "PATIENCE_SECONDS", 0.2)
    ask = b'{"tool_name": "Read", "args": {"file_path": "long.txt"}}'
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
    with connection:
        connection.connect(served.address)
        for _ in range(40):
            connection.sendall(served.head(length=len(ask)) + ask)
        wait_until(lambda: is_gone(connection.getsockname()[1]))


def test_an_answer_that_is_taken_slowly_comes_whole(served, monkeypatch):
    monkeypatch.setattr(http_connections, "PATIENCE_SECONDS", 0.2)
    # Connections take it over from the listener: the kernel would hold all of the answer.
    served.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 12)
    ask = b'{"tool_name": "Read", "args": {"file_path": "long.txt"}}'
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
    got = b""
    with connection:
        connection.connect(served.address)
        connection.settimeout(SECONDS)
        connection.sendall(served.head(length=len(ask)) + ask)
        while not got.endswith(b"0\r\n\r\n"):
            piece = connection.recv(1 << 11)
            assert piece, "it was cut off"
            got += piece
            time.sleep(0.02)
    assert len(got) > 100_000


def test_who_holds_all_connections_makes_room_for_those_that_ask(address, monkeypatch):
    monkeypatch.setattr(http_connections, "PATIENCE_SECONDS", 1000.0)
    many = [held(address, b"GET /tools HT") for _ in range(4 * HELD)]
    assert status(address) == 401
    assert is_closed(many[0])
    for connection in many:
        connection.close()
