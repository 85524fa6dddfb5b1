"""The network proxy and clients, servers and names that mean harm."""

import contextlib
import os
import select
import threading
import time

import pytest

from tests.support.fake_clock import put_forward
from toolyard.sandbox.proxy.dns import MAX_CONCURRENT_LOOKUPS

from .proxying import (
    WAIT,
    ask,
    dial,
    echo,
    open_files,
    proxies,
    read_all,
    servers,
    status,
    tunnel,
)


@pytest.fixture
def server():
    with servers() as start:
        yield start


@pytest.fixture
def proxy(tmp_path):
    with proxies(tmp_path) as start:
        yield start


def test_lookups_that_never_end_hold_up_neither_others_nor_the_end(server, proxy):
    origin = server(echo)
    go_on = threading.Event()
    running = []

    def lookup(host, port):
        running.append(host)
        go_on.wait(WAIT)
        return []

    way = proxy("*.test", f"127.0.0.1:{origin.port}", lookup=lookup, connect_seconds=0.5)
    clients = [dial(way) for _ in range(MAX_CONCURRENT_LOOKUPS + 4)]
    for number, client in enumerate(clients):
        client.sendall(f"CONNECT {number}.test:443 HTTP/1.1\r\n\r\n".encode())
    with tunnel(way, "127.0.0.1", origin.port) as other:
        other.sendall(b"x")
        assert other.recv(1) == b"x"
    for client in clients:
        with client:
            assert status(read_all(client)) == 502
    assert len(running) == MAX_CONCURRENT_LOOKUPS
    assert len([allowed for *_, allowed in way.told if allowed]) == len(clients) + 1
    way.close()
    go_on.set()


def test_a_head_that_trickles_in_is_ended(proxy):
    way = proxy("a.test", head_seconds=0.3)
    with dial(way) as client:
        client.sendall(b"GET http://a.test/ HTTP/1.1\r\nX: ")
        assert status(read_all(client)) == 408


def test_a_head_that_never_ends_is_cut(proxy):
    way = proxy("a.test", head_bytes=1000)
    with dial(way) as client:
        with contextlib.suppress(OSError):
            client.sendall(b"GET http://a.test/ HTTP/1.1\r\nX: " + b"x" * 100_000)
        assert status(client.recv(10000)) == 431


def test_an_idle_tunnel_is_closed_and_a_busy_one_is_not(server, proxy):
    origin = server(echo)
    way = proxy(f"127.0.0.1:{origin.port}", idle_seconds=600)
    with tunnel(way, "127.0.0.1", origin.port) as idle, tunnel(way, "127.0.0.1", origin.port) as busy:
        for number in range(4):
            busy.sendall(b"x")
            assert busy.recv(1) == b"x"
            if number == 1:
                assert select.select([idle], [], [], 0)[0] == []  # 400 s are not 600
            put_forward(way._loop, 400)
        idle.settimeout(WAIT / 2)  # the server itself hangs up after the whole of it
        assert idle.recv(1) == b""
        busy.sendall(b"y")
        assert busy.recv(1) == b"y"


def test_when_all_connections_are_taken_the_next_waits_for_one(server, proxy):
    origin = server(echo)
    way = proxy(f"127.0.0.1:{origin.port}", connections=4)
    taken = [tunnel(way, "127.0.0.1", origin.port) for _ in range(4)]
    with dial(way) as waiting:
        waiting.sendall(f"CONNECT 127.0.0.1:{origin.port} HTTP/1.1\r\n\r\n".encode())
        waiting.settimeout(0.3)
        with pytest.raises(TimeoutError):
            waiting.recv(1)
        waiting.settimeout(WAIT)
        taken.pop().close()
        assert waiting.recv(12) == b"HTTP/1.1 200"
    for client in taken:
        client.close()


def test_thousands_of_connections_and_garbage_leave_it_serving_and_nothing_open(server, proxy):
    origin = server(echo)
    way = proxy(f"127.0.0.1:{origin.port}", head_seconds=1)
    before = open_files()
    garbage = [
        b"",
        b"\r\n\r\n",
        b"\0" * 100,
        os.urandom(500) + b"\r\n\r\n",
        b"\x16\x03\x01" * 50,
        b"CONNECT",
        b"G" * 70000,
    ]
    for number in range(3000):
        with dial(way) as client, contextlib.suppress(OSError):
            client.setblocking(False)
            client.send(garbage[number % len(garbage)])
    with tunnel(way, "127.0.0.1", origin.port) as client:
        client.sendall(b"still here")
        assert client.recv(20) == b"still here"
    deadline = time.monotonic() + WAIT
    while open_files() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert open_files() <= before
    assert way.told == [("127.0.0.1", origin.port, True)]


def test_a_client_that_goes_away_frees_the_server_it_talked_to(server, proxy):
    gone = threading.Event()

    def endless(connection):
        try:
            while True:
                connection.sendall(b"x" * 65536)
        except OSError:
            gone.set()

    origin = server(endless)
    way = proxy(f"127.0.0.1:{origin.port}")
    with tunnel(way, "127.0.0.1", origin.port) as client:
        assert client.recv(1) == b"x"
    assert gone.wait(WAIT)


def test_a_refused_client_that_still_sends_gets_its_answer(proxy):
    way = proxy()
    answer = ask(way, "POST http://a.test/ HTTP/1.1", "Content-Length: 500000", body=b"x" * 500_000)
    assert status(answer) == 403
