"""Brokers to talk to, and a raw end of their socket that may say anything."""

import asyncio
import json
import socket
import struct
import threading
from dataclasses import dataclass, field

from toolyard.codemode.broker import Broker, BrokerLimits
from toolyard.core.closeable import Closeable

DEADLINE = 20.0


async def echo(request, progress):
    """What was asked, as it was understood."""
    return {"structured": {"agent": request.agent, "tool": request.tool, "arguments": dict(request.arguments)}}


class Hold:
    """A handler whose calls stay open until they are let go. Counts what is in it."""

    def __init__(self, answer=None):
        self.answer = answer
        self.open = 0
        self.most = 0
        self.begun = 0
        self.cancelled = 0
        self._go = asyncio.Event()
        self.changed = threading.Condition()

    async def __call__(self, request, progress):
        self._count(1)
        try:
            await self._go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self._count(-1)
        return self.answer or request.tool

    def _count(self, by):
        with self.changed:
            self.open += by
            self.begun += by > 0
            self.most = max(self.most, self.open)
            self.changed.notify_all()

    def let_go(self, loop):
        loop.call_soon_threadsafe(self._go.set)

    def reaches(self, condition):
        with self.changed:
            return self.changed.wait_for(lambda: condition(self), DEADLINE)


@dataclass
class Yard(Closeable):
    """Brokers on one loop."""

    loop: asyncio.AbstractEventLoop
    brokers: list = field(default_factory=list)

    def open(self, handler=echo, agent="a", **limits):
        broker = Broker.open(agent, handler, self.loop, BrokerLimits(**limits))
        self.brokers.append(broker)
        return broker

    def on_loop(self, function):
        async def run():
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(DEADLINE)

    def settles(self, condition):
        """Whether it came true: what the loop does after a connection went sends no event."""
        until = threading.Event()
        for _ in range(int(DEADLINE / 0.01)):
            if self.on_loop(condition):
                return True
            until.wait(0.01)
        return False

    def close(self):
        for broker in self.brokers:
            broker.close()


class Raw(Closeable):
    """A connection that says what it likes."""

    def __init__(self, broker):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(broker.socket_path)
        self.socket.settimeout(DEADLINE)

    def send(self, message):
        self.send_bytes(json.dumps(message).encode())

    def send_bytes(self, body):
        self.socket.sendall(struct.pack("<I", len(body)) + body)

    def ask(self, number, tool="t", **arguments):
        self.send({"id": number, "do": "mcp", "server": "s", "tool": tool, "arguments": arguments})

    def receive(self):
        header = self._exactly(4)
        return None if header is None else json.loads(self._exactly(struct.unpack("<I", header)[0]))

    def _exactly(self, size):
        data = b""
        while len(data) < size:
            try:
                part = self.socket.recv(size - len(data))
            except ConnectionResetError:
                part = b""
            if not part:
                return None
            data += part
        return data

    @property
    def is_closed(self):
        """Whether the broker ends it."""
        return self.receive() is None

    def close(self):
        self.socket.close()
