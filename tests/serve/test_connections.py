"""Who holds connections to the server without asking for anything does not keep others out."""

from __future__ import annotations

import http.client
import socket
import time
from urllib.parse import urlsplit

import pytest

from toolyard.drivers.host import Host
from toolyard.serve.mcp import connections

SECONDS = 10
HELD = 12


@pytest.fixture
def address(monkeypatch):
    monkeypatch.setattr(connections, "most", lambda: HELD)
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 0.2)
    with Host() as host:
        url = urlsplit(host.url)
        yield url.hostname, url.port


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
        time.sleep(5 * connections.PATIENCE_SECONDS)
    connection.sock.settimeout(0.1)
    with pytest.raises(TimeoutError):  # open, and nothing to read
        connection.sock.recv(1)
    connection.close()


def test_who_holds_all_connections_makes_room_for_those_that_ask(address, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 1000.0)
    many = [held(address, b"GET /tools HT") for _ in range(4 * HELD)]
    assert status(address) == 401
    assert is_closed(many[0])
    for connection in many:
        connection.close()
