"""The sandbox's end of the network proxy: forwards a loopback port to the proxy's unix socket.

Programs need a proxy's host and port, not a path; this process translates. It decides nothing: the other side of the
socket decides what is allowed, so code inside that bypasses or breaks this process gains nothing.

Contract: the supervisor creates the listener (`listen`) before any run can start, forks, and the child calls `serve`,
which never returns. It ends with the sandbox. It has one thread and bounded connections and buffers; when all are in
use, new connections wait in the kernel. Idle connections are closed.
"""

from __future__ import annotations

import selectors
import socket
from time import monotonic, sleep

CONNECTIONS = 128  # less than the proxy's connections and backlog together, so that connecting to it never blocks
_BUFFER_BYTES = 64 * 1024
_BACKLOG = 256
_IDLE_SECONDS = 180.0  # longer than the proxy's own timeout, which is more precise
_DRAIN_SECONDS = 5.0
_SWEEP_SECONDS = 1.0
_RETRY_ACCEPT_SECONDS = 0.05
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

_PROXY_DOWN_RESPONSE = (
    b"HTTP/1.1 502 The network proxy of this sandbox does not answer\r\nContent-Type: text/plain\r\n"
    b"Connection: close\r\n\r\n"
    b"The network proxy of this sandbox does not answer: it has ended, or too many connections are open.\n"
)


def listen(port: int = 0) -> socket.socket:
    """Creates a listener on the loopback of this network namespace. Raises OSError."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def serve(listener: socket.socket, socket_path: str) -> None:
    """Forwards connections for as long as the process lives."""
    listener.settimeout(0)
    with selectors.DefaultSelector() as selector:
        _Forwarder(selector, listener, socket_path).run()


class _Flow:
    """One direction of a connection, with at most one buffer read from `source` and not yet written to `sink`."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source = source
        self.sink = sink
        self.waiting = b""
        self.source_ended = False
        self.sink_ended = False
        """Whether the sink was shut down or is gone; later data from the source is dropped."""
        self.source_broken = False
        self.sink_broken = False

    @property
    def is_done(self) -> bool:
        return self.source_ended and not self.waiting

    def read(self) -> None:
        try:
            chunk = self.source.recv(_BUFFER_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self.source_broken = True
            chunk = b""
        if not chunk:
            self.source_ended = True
        elif not self.sink_ended:
            self.waiting = chunk
        self.write()

    def write(self) -> None:
        try:
            if self.waiting:
                self.waiting = self.waiting[self.sink.send(self.waiting) :]
            if self.is_done and not self.sink_ended:
                self.sink_ended = True
                self.sink.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            return
        except OSError:
            self.sink_ended = self.sink_broken = True
            self.waiting = b""


class _Pair:
    """A connection of a program with its connection to the proxy."""

    def __init__(self, inner: socket.socket, outer: socket.socket) -> None:
        self.inner = inner
        self.outer = outer
        self.out = _Flow(inner, outer)
        self.back = _Flow(outer, inner)
        self.last_active = monotonic()

    def wanted_events(self, end: socket.socket) -> int:
        """Returns the events to watch `end` for."""
        reading, writing = (self.out, self.back) if end is self.inner else (self.back, self.out)
        wanted = _READ if not reading.source_ended and not reading.waiting else 0
        return wanted | (_WRITE if writing.waiting else 0)

    def handle_events(self, end: socket.socket, events: int) -> None:
        reading, writing = (self.out, self.back) if end is self.inner else (self.back, self.out)
        if events & _READ:
            reading.read()
        if events & _WRITE:
            writing.write()
        if not (self.out.sink_ended and self.back.is_done):
            self.last_active = monotonic()

    @property
    def is_over(self) -> bool:
        # It is over once the program is gone. If only the proxy is gone, its last bytes may still be in flight.
        return (self.out.is_done and self.back.is_done) or self.out.source_broken or self.back.sink_broken

    def is_stale(self, now: float) -> bool:
        # The answer is complete and the proxy reads no more: the rest that the program sends is read and dropped
        # for a while, because closing the socket during that would lose the answer.
        limit = _DRAIN_SECONDS if self.out.sink_ended and self.back.is_done else _IDLE_SECONDS
        return now - self.last_active > limit


class _Forwarder:
    def __init__(self, selector: selectors.BaseSelector, listener: socket.socket, socket_path: str) -> None:
        self._selector = selector
        self._listener = listener
        self._socket_path = socket_path
        self._pairs: set[_Pair] = set()

    def run(self) -> None:
        swept = monotonic()
        while True:
            self._watch(self._listener, _READ if len(self._pairs) < CONNECTIONS else 0, None)
            for key, events in self._selector.select(_SWEEP_SECONDS if self._pairs else None):
                if key.data is None:
                    self._accept()
                elif key.data in self._pairs:  # an event of its other end may have closed it
                    key.data.handle_events(key.fileobj, events)
                    self._update_pair(key.data)
            if monotonic() - swept > _SWEEP_SECONDS:
                swept = monotonic()
                for pair in [each for each in self._pairs if each.is_stale(swept)]:
                    self._drop(pair)

    def _accept(self) -> None:
        try:
            inner, _ = self._listener.accept()
        except BlockingIOError:
            return  # the client has already disconnected
        except OSError:
            sleep(_RETRY_ACCEPT_SECONDS)  # out of descriptors: they are freed as connections end
            return
        try:
            outer = _connect(self._socket_path)
        except OSError:  # out of descriptors
            inner.close()
            return
        inner.settimeout(0)
        inner.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair = _Pair(inner, outer)
        self._pairs.add(pair)
        self._update_pair(pair)

    def _update_pair(self, pair: _Pair) -> None:
        if pair.is_over:
            self._drop(pair)
            return
        for end in (pair.inner, pair.outer):
            self._watch(end, pair.wanted_events(end), pair)

    def _drop(self, pair: _Pair) -> None:
        self._pairs.discard(pair)
        for end in (pair.inner, pair.outer):
            self._watch(end, 0, pair)
            end.close()

    def _watch(self, end: socket.socket, events: int, pair: _Pair | None) -> None:
        known = self._selector.get_map().get(end)
        if known is None:
            if events:
                self._selector.register(end, events, pair)
        elif not events:
            self._selector.unregister(end)
        elif known.events != events:
            self._selector.modify(end, events, pair)


def _connect(path: str) -> socket.socket:
    """Connects to the proxy; if that fails, returns a connection that answers with an error."""
    outer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    outer.settimeout(0)
    try:
        outer.connect(path)
    except OSError:
        outer.close()
        outer, voice = socket.socketpair()
        outer.settimeout(0)
        with voice:
            voice.sendall(_PROXY_DOWN_RESPONSE)
    return outer
