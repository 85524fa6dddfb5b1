"""The network proxy over real sockets: what it lets out, what it does not, and clients that mean harm."""

import contextlib
import os
import queue
import socket
import stat
import threading
import time
from ipaddress import ip_address

import pytest

from toolyard.core.limits import MIB
from toolyard.sandbox.proxy import Proxy, ProxyLimits
from toolyard.sandbox.proxy_lookup import LOOKUPS_AT_ONCE, system_lookup
from toolyard.sandbox.proxy_rules import AllowList

WAIT = 20
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"


class Server:
    """A TCP server on loopback. Each connection is handed to `handle` in a thread; `seen` gets what it returns."""

    def __init__(self, handle):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.seen = queue.Queue()
        self.handle = handle
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        self.workers = []

    def run(self):
        while True:
            connection, _ = self.listener.accept()
            if self.handle is None:
                connection.close()
                return
            worker = threading.Thread(target=self.work, args=(self.handle, connection))
            worker.start()
            self.workers.append(worker)

    def work(self, handle, connection):
        with connection, contextlib.suppress(OSError):
            connection.settimeout(WAIT)
            self.seen.put(handle(connection))

    def close(self):
        self.handle = None
        socket.create_connection(("127.0.0.1", self.port)).close()
        self.thread.join(WAIT)
        self.listener.close()
        for worker in self.workers:
            worker.join(WAIT)

    @property
    def was_reached(self):
        return bool(self.workers)


def read_all(connection):
    data = b""
    while chunk := connection.recv(65536):
        data += chunk
    return data


def until_close(connection):
    """Answers at once and records all that ever comes."""
    connection.sendall(ANSWER)
    connection.shutdown(socket.SHUT_WR)
    return read_all(connection)


def echo(connection):
    while chunk := connection.recv(65536):
        connection.sendall(chunk)
    return "end"


@pytest.fixture
def server():
    running = []

    def start(handle):
        running.append(Server(handle))
        return running[-1]

    yield start
    for each in running:
        each.close()


@pytest.fixture
def proxy(tmp_path):
    with contextlib.ExitStack() as stack:

        def start(*allowed, lookup=system_lookup, on_request=None, **limits):
            told = []
            made = Proxy(
                str(tmp_path / f"proxy{len(os.listdir(tmp_path))}"),
                AllowList(allowed),
                on_request or (lambda *each: told.append(each)),
                limits=ProxyLimits(**limits),
                lookup=lookup,
            )
            made.told = told
            return stack.enter_context(made)

        yield start


def dial(proxy):
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.connect(proxy.path)  # without a timeout, with which a full backlog would be an error
    client.settimeout(WAIT)
    return client


def ask(proxy, *lines, body=b""):
    """The whole answer to one request."""
    with dial(proxy) as client:
        client.sendall("\r\n".join((*lines, "", "")).encode() + body)
        return read_all(client)


def status(answer):
    return int(answer.split(b" ", 2)[1])


def tunnel(proxy, host, port):
    client = dial(proxy)
    client.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\n\r\n".encode())
    expected = b"HTTP/1.1 200 Connection established\r\n\r\n"
    assert client.recv(len(expected), socket.MSG_WAITALL) == expected
    return client


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


@pytest.mark.parametrize("body", [b"", b"12345"])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_second_request_behind_the_first_never_reaches_the_server(server, proxy, body, at_once):
    origin = server(lambda c: (c.recv(1), c.sendall(ANSWER), c.shutdown(socket.SHUT_WR), read_all(c))[-1])
    way = proxy(f"127.0.0.1:{origin.port}")
    first = f"POST http://127.0.0.1:{origin.port}/ HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    second = b"GET http://127.0.0.1/ HTTP/1.1\r\nHost: hidden.example\r\n\r\n"
    with dial(way) as client:
        if at_once:
            client.sendall(first + body + second)
        else:
            for part in (first, body, second):
                with contextlib.suppress(BrokenPipeError):  # the answer may be over already
                    client.sendall(part)
                time.sleep(0.05)
        assert read_all(client) == ANSWER
    seen = origin.seen.get(timeout=WAIT)
    assert b"hidden.example" not in seen
    assert seen.count(b"HTTP/1.1") == 1


def test_a_host_that_is_not_listed_is_refused_with_what_to_do(server, proxy):
    origin = server(until_close)
    way = proxy("pypi.org", "*.pythonhosted.org")
    answer = ask(way, f"CONNECT 127.0.0.1:{origin.port} HTTP/1.1")
    head, _, body = answer.decode().partition("\r\n\r\n")
    where = f"127.0.0.1:{origin.port}"
    assert head.splitlines()[0] == f"HTTP/1.1 403 {where} is not in code_execution.allowed_hosts"
    assert body == (
        f"{where} is not in code_execution.allowed_hosts.\n"
        "Allowed from this sandbox: pypi.org, *.pythonhosted.org (ports 80 and 443 where none is named).\n"
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


def test_lookups_that_never_end_hold_up_neither_others_nor_the_end(server, proxy):
    origin = server(echo)
    go_on = threading.Event()
    running = []

    def lookup(host, port):
        running.append(host)
        go_on.wait(WAIT)
        return []

    way = proxy("*.test", f"127.0.0.1:{origin.port}", lookup=lookup, connect_seconds=0.5)
    clients = [dial(way) for _ in range(LOOKUPS_AT_ONCE + 4)]
    for number, client in enumerate(clients):
        client.sendall(f"CONNECT {number}.test:443 HTTP/1.1\r\n\r\n".encode())
    with tunnel(way, "127.0.0.1", origin.port) as other:
        other.sendall(b"x")
        assert other.recv(1) == b"x"
    for client in clients:
        with client:
            assert status(read_all(client)) == 502
    assert len(running) == LOOKUPS_AT_ONCE
    assert len([allowed for *_, allowed in way.told if allowed]) == len(clients) + 1
    way.close()
    go_on.set()


def test_a_request_that_cannot_be_recorded_is_not_made(server, proxy):
    origin = server(until_close)

    def full(*_):
        raise OSError("the disk is full")

    way = proxy(f"127.0.0.1:{origin.port}", on_request=full)
    answer = ask(way, f"GET http://127.0.0.1:{origin.port}/ HTTP/1.1")
    assert status(answer) == 503
    assert b"disk" not in answer
    assert not origin.was_reached


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
    way = proxy(f"127.0.0.1:{origin.port}", idle_seconds=0.6)
    with tunnel(way, "127.0.0.1", origin.port) as idle, tunnel(way, "127.0.0.1", origin.port) as busy:
        idle_since = time.monotonic()
        for _ in range(10):
            busy.sendall(b"x")
            assert busy.recv(1) == b"x"
            time.sleep(0.1)
        assert idle.recv(1) == b""
        assert time.monotonic() - idle_since >= 0.6
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


def open_files():
    return len(os.listdir("/proc/self/fd"))


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
    before = open_files()
    with pytest.raises(OSError, match="Address already in use"):
        Proxy(str(tmp_path / "taken"), AllowList([]), lambda *_: None)
    assert open_files() == before
    assert (tmp_path / "taken").read_text() == "mine"


def test_the_systems_lookup_finds_localhost():
    assert ip_address("127.0.0.1") in system_lookup("localhost", 80)
    with pytest.raises(OSError):
        system_lookup("no-such-name.invalid", 80)
