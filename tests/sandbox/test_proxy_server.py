"""The network proxy over real sockets: what it lets out, and what it does not."""

import os
import socket
import stat
import threading
import time
from ipaddress import ip_address
from itertools import pairwise

import pytest

from tests.support.descriptors import open_now
from toolyard.core.limits import MIB
from toolyard.sandbox.proxy.allow_list import AllowList
from toolyard.sandbox.proxy.dns import system_lookup
from toolyard.sandbox.proxy.server import ProxyServer

from .proxying import (
    ANSWER,
    WAIT,
    ask,
    dial,
    echo,
    proxies,
    read_all,
    servers,
    status,
    tunnel,
    until_close,
)


@pytest.fixture
def server():
    with servers() as start:
        yield start


@pytest.fixture
def proxy(tmp_path):
    with proxies(tmp_path) as start:
        yield start


def test_a_tunnel_carries_both_ways_and_each_side_ends_for_itself(server, proxy):
    def late(connection):
        got = read_all(connection)
        connection.sendall(b"got " + got)

    origin = server(late)
    way = proxy(f"localhost:{origin.port}")
    with tunnel(way, "localhost", origin.port) as client:
        client.sendall(b"all of it")
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == b"got all of it"
    assert way.told == [("localhost", origin.port, True)]


def test_what_follows_connect_in_the_same_packet_is_not_lost(server, proxy):
    origin = server(echo)
    way = proxy(f"127.0.0.1:{origin.port}")
    with dial(way) as client:
        client.sendall(f"CONNECT 127.0.0.1:{origin.port} HTTP/1.1\r\n\r\nearly".encode())
        client.shutdown(socket.SHUT_WR)
        assert read_all(client).endswith(b"\r\n\r\nearly")


def test_many_megabytes_arrive_whole_and_a_slow_reader_holds_nobody_up(server, proxy):
    origin = server(echo)
    way = proxy(f"127.0.0.1:{origin.port}")
    data = os.urandom(MIB) * 8
    with tunnel(way, "127.0.0.1", origin.port) as client, tunnel(way, "127.0.0.1", origin.port) as other:
        sender = threading.Thread(target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR)))
        sender.start()
        other.sendall(b"x")
        assert other.recv(1) == b"x"
        assert read_all(client) == data
        sender.join(WAIT)


def test_a_plain_request_reaches_the_server_as_one_request_to_that_host(server, proxy):
    origin = server(until_close)
    way = proxy(f"localhost:{origin.port}")
    answer = ask(way, f"GET http://LocalHost:{origin.port}/a HTTP/1.1", "Host: other.org", "Proxy-Authorization: x")
    assert answer == ANSWER
    expected = f"GET /a HTTP/1.1\r\nHost: localhost:{origin.port}\r\nConnection: close\r\n\r\n".encode()
    assert origin.seen.get(timeout=WAIT) == expected


@pytest.mark.parametrize("cuts", [(), (0,), (-1,), (3,), (0, 5)], ids=str)
def test_a_second_request_behind_the_first_never_reaches_the_server(server, proxy, cuts):
    sent = threading.Event()

    def answer_late(connection):
        connection.recv(1)
        sent.wait(WAIT)
        connection.sendall(ANSWER)
        connection.shutdown(socket.SHUT_WR)
        return read_all(connection)

    origin = server(answer_late)
    way = proxy(f"127.0.0.1:{origin.port}")
    first = f"POST http://127.0.0.1:{origin.port}/ HTTP/1.1\r\nContent-Length: 5\r\n\r\n".encode()
    rest = b"12345GET http://127.0.0.1/ HTTP/1.1\r\nHost: hidden.example\r\n\r\n"
    places = [0, *(len(first) + cut for cut in cuts), None]
    with dial(way) as client:
        for start, end in pairwise(places):
            client.sendall((first + rest)[start:end])
            time.sleep(0.1)  # so that each part is read by itself
        sent.set()
        assert read_all(client) == ANSWER
    seen = origin.seen.get(timeout=WAIT)
    assert seen.endswith(b"\r\n\r\n12345")
    assert seen.count(b"HTTP/1.1") == 1


def test_a_host_that_is_not_listed_is_refused_with_what_to_do(server, proxy):
    origin = server(until_close)
    way = proxy("example.org", "*.example.net")
    answer = ask(way, f"CONNECT 127.0.0.1:{origin.port} HTTP/1.1")
    head, _, body = answer.decode().partition("\r\n\r\n")
    where = f"127.0.0.1:{origin.port}"
    assert head.splitlines()[0] == f"HTTP/1.1 403 {where} is not in code_execution.allowed_hosts"
    assert body == (
        f"{where} is not in code_execution.allowed_hosts.\n"
        "Allowed from this sandbox: example.org, *.example.net (ports 80 and 443 where none is named).\n"
        f"To allow it, the user adds {where} to code_execution.allowed_hosts in toolyard.yaml.\n"
    )
    assert way.told == [("127.0.0.1", origin.port, False)]
    assert not origin.was_reached


@pytest.mark.parametrize(
    "target",
    [
        "127.0.0.1:{port}",
        "127.1:{port}",
        "2130706433:{port}",
        "0x7f000001:{port}",
        "0177.0.0.1:{port}",
        "[::1]:{port}",
        "[::ffff:127.0.0.1]:{port}",
        "[::]:{port}",
        "0:{port}",
        "0.0.0.0:{port}",
        "localhost:{port}",
        "allowed.test@127.0.0.1:{port}",
        "allowed.test:443@127.0.0.1:{port}",
        "allowed.test%00.127.0.0.1:{port}",
        "127.0.0.1:{port}#allowed.test:443",
        "127.0.0.1:{port}?.allowed.test:443",
        "127.0.0.1:{port}\\.allowed.test:443",
        "127.0.0.1\t:{port}",
        "allowed.test.localhost:{port}",
        "xallowed.test:{port}",
        "sub.allowed.test:{port}",
        "allowed.test:{port}",
    ],
)
@pytest.mark.parametrize("form", ["CONNECT {} HTTP/1.1", "GET http://{}/ HTTP/1.1"])
def test_no_spelling_gets_past_the_list(server, proxy, target, form):
    origin = server(until_close)
    way = proxy("allowed.test", lookup=lambda *_: [ip_address("127.0.0.1")])
    answer = ask(way, form.format(target.format(port=origin.port)), "Host: allowed.test")
    assert status(answer) in {400, 403}
    assert all(not allowed for *_, allowed in way.told)
    assert not origin.was_reached


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "169.254.169.254", "10.1.2.3", "::1", "::ffff:127.0.0.1", "fd00::1"]
)
def test_a_listed_name_that_leads_inside_is_refused(proxy, address):
    way = proxy("rebound.test", lookup=lambda *_: [ip_address(address)])
    answer = ask(way, "CONNECT rebound.test:443 HTTP/1.1")
    assert status(answer) == 403
    assert b"which is not a public address" in answer
    assert way.told == [("rebound.test", 443, False)]


def test_the_address_that_was_checked_is_the_one_that_is_used(server, proxy):
    origin = server(echo)
    asked = []

    def lookup(host, port):
        asked.append(host)
        return [ip_address("169.254.169.254"), ip_address("127.0.0.1")]

    way = proxy(f"pkg.test:{origin.port}", f"127.0.0.1:{origin.port}", lookup=lookup, connect_seconds=5)
    tunnel(way, "pkg.test", origin.port).close()
    assert asked == ["pkg.test"]
    assert way.told == [("pkg.test", origin.port, True)]


def test_an_unreachable_server_and_an_unknown_name_are_told_apart_from_a_refusal(proxy):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def unknown(host, port):
        raise socket.gaierror(-2, "Name or service not known")

    answer = ask(proxy(f"127.0.0.1:{port}"), f"CONNECT 127.0.0.1:{port} HTTP/1.1")
    assert answer.startswith(f"HTTP/1.1 502 127.0.0.1:{port} cannot be reached: Connect".encode())
    answer = ask(proxy("gone.test", lookup=unknown), "GET http://gone.test/ HTTP/1.1")
    assert answer.startswith(b"HTTP/1.1 502 gone.test:80 cannot be reached: Name or service not known")


def test_a_request_that_cannot_be_recorded_is_not_made(server, proxy):
    origin = server(until_close)

    def full(*_):
        raise OSError("the disk is full")

    way = proxy(f"127.0.0.1:{origin.port}", on_request=full)
    answer = ask(way, f"GET http://127.0.0.1:{origin.port}/ HTTP/1.1")
    assert status(answer) == 503
    assert b"disk" not in answer
    assert not origin.was_reached


def test_close_ends_connections_and_the_thread_and_removes_the_socket(server, proxy):
    origin = server(echo)
    before = threading.active_count()
    way = proxy(f"127.0.0.1:{origin.port}")
    assert stat.S_IMODE(os.stat(way.path).st_mode) == 0o600
    with tunnel(way, "127.0.0.1", origin.port) as client, dial(way) as silent:
        way.close()
        assert client.recv(1) == b""
        assert silent.recv(1) == b""
    assert not os.path.exists(way.path)
    assert not way._thread.is_alive()
    assert threading.active_count() <= before + 1  # the server's own worker
    way.close()
    assert origin.seen.get(timeout=WAIT) == "end"


def test_a_path_that_is_taken_is_an_error_and_leaks_nothing(tmp_path):
    (tmp_path / "taken").write_text("mine")
    before = open_now()  # what a test before had open may be closed meanwhile
    with pytest.raises(OSError, match="Address already in use"):
        ProxyServer(str(tmp_path / "taken"), AllowList([]), lambda *_: None)
    assert open_now() <= before
    assert (tmp_path / "taken").read_text() == "mine"


def test_the_systems_lookup_finds_localhost():
    assert ip_address("127.0.0.1") in system_lookup("localhost", 80)
    with pytest.raises(OSError):
        system_lookup("no-such-name.invalid", 80)
