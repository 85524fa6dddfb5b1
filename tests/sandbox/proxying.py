"""Servers on loopback, proxies to reach them through, and clients to ask with."""

import contextlib
import os
import queue
import socket
import threading

from toolyard.sandbox.proxy.allow_list import AllowList
from toolyard.sandbox.proxy.dns import system_lookup
from toolyard.sandbox.proxy.server import ProxyLimits, ProxyServer

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


@contextlib.contextmanager
def servers():
    """A function that starts servers, which end with the block."""
    running = []

    def start(handle):
        running.append(Server(handle))
        return running[-1]

    try:
        yield start
    finally:
        for each in running:
            each.close()


@contextlib.contextmanager
def proxies(folder):
    """A function that starts proxies, which end with the block. `told` of each is what its owner heard."""
    with contextlib.ExitStack() as stack:

        def start(*allowed, lookup=system_lookup, on_request=None, **limits):
            told = []
            made = ProxyServer(
                str(folder / f"proxy{len(os.listdir(folder))}"),
                AllowList(allowed),
                on_request or (lambda *each: told.append(each)),
                limits=ProxyLimits(**limits),
                lookup=lookup,
            )
            made.told = told
            return stack.enter_context(made)

        yield start


def open_files():
    return len(os.listdir("/proc/self/fd"))


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
