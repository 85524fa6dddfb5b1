"""The sandbox's end of its way out: what connects to a port on its loopback goes to the proxy's unix socket.

Programs know proxies by host and port, not by path; this stands between. It decides nothing: what may go out is
decided on the other side of the socket, so whoever inside goes round this file, or breaks it, gains nothing.

Contract: the warden makes the listener (`listen`) before any run can start, forks, and the child calls `serve`, which
never returns. It ends with the sandbox. One thread, bounded connections and buffers; when all are taken, new ones
wait in the kernel. A connection that lies idle is closed.
"""

from __future__ import annotations

import selectors
import socket
from time import monotonic, sleep

CONNECTIONS = 128  # below what the proxy serves and lets wait together, so that connecting to it never blocks
_BUFFER_BYTES = 64 * 1024
_BACKLOG = 256
_IDLE_SECONDS = 180.0  # longer than the proxy's own, which knows better
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
    """A listener on the loopback of this network namespace. Raises OSError."""
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
    """Forward for as long as the process lives."""
    listener.settimeout(0)
    with selectors.DefaultSelector() as selector:
        _Forwarder(selector, listener, socket_path).run()


class _Flow:
    """One direction of a connection: at most a buffer's worth read from `source` and not yet taken by `sink`."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source = source
        self.sink = sink
        self.waiting = b""
        self.source_ended = False
        self.sink_ended = False
        """Told of the source's end, or gone; what still comes from the source is dropped."""
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
    def __init__(self, inner: socket.socket, outer: socket.socket) -> None:
        self.inner = inner
        self.outer = outer
        self.out = _Flow(inner, outer)
        self.back = _Flow(outer, inner)
        self.last_active = monotonic()

    def wanted_events(self, end: socket.socket) -> int:
        """What `end` is to be watched for."""
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
        # Once the program is gone nobody is left to serve; once the proxy is, its last words may be on their way.
        return (self.out.is_done and self.back.is_done) or self.out.source_broken or self.back.sink_broken

    def is_stale(self, now: float) -> bool:
        # The answer is there and the proxy takes no more: the rest of what the program sends is read and dropped for
        # a while, because closing the socket under it would cost it the answer.
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
                elif key.data in self._pairs:  # its other end may have ended it a moment ago
                    key.data.step(key.fileobj, events)
                    self._update_pair(key.data)
            if monotonic() - swept > _SWEEP_SECONDS:
                swept = monotonic()
                for pair in [each for each in self._pairs if each.is_stale(swept)]:
                    self._drop(pair)

    def _accept(self) -> None:
        try:
            inner, _ = self._listener.accept()
        except BlockingIOError:
            return  # the client went away again
        except OSError:
            sleep(_RETRY_ACCEPT_SECONDS)  # no descriptors left: they come back as connections end
            return
        try:
            outer = _connect(self._socket_path)
        except OSError:  # no descriptors left
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
    """A connection to the proxy; in its place, when there is none, one that says so."""
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
