"""The SDK's side of one stdio connection: its server gets the lines that nothing else handled."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types.jsonrpc import (
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from toolyard.app.yard import Yard
from toolyard.core.calls import ApprovalCallback
from toolyard.core.json_size import find_repeated_key
from toolyard.transports.mcp.fast_path import FastPath
from toolyard.transports.mcp.handshake import HandshakeServer
from toolyard.transports.mcp.publish_watch import ChangePollers
from toolyard.transports.mcp.server import YardServer
from toolyard.transports.mcp.stdio import LineReader, LineWriter

_LISTEN = "subscriptions/listen"
"""Answered when the client ends it, so a client that disconnects does not wait for it."""


class SdkSession:
    """Runs the SDK's server on a stdio connection."""

    def __init__(
        self,
        yard: Yard,
        surface: str,
        fast_path: FastPath,
        on_callback: Callable[[ApprovalCallback], None],
        pollers: ChangePollers | None = None,
    ) -> None:
        """`on_callback` gets the approval callback once the SDK knows the client."""
        self._server = YardServer(yard, surface, fast_path, on_callback, pollers).build()

    async def run(self, reader: LineReader, writer: LineWriter, handshake: HandshakeServer) -> None:
        """Serves until the client disconnects."""
        reading = _ReadStream(reader, writer, handshake)
        await self._server.run(reading, _WriteStream(writer, handshake), self._server.create_initialization_options())


class _Stream:
    """The async context manager that the SDK expects for each half."""

    async def aclose(self) -> None:
        """Does nothing: the descriptors belong to their opener."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


class _ReadStream(_Stream):
    """Yields the replayed messages, then every unhandled line."""

    def __init__(self, lines: LineReader, writer: LineWriter, handshake: HandshakeServer) -> None:
        self._lines = lines
        self._writer = writer
        self._handshake = handshake
        self._replay = deque(handshake.replay_for_sdk())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> SessionMessage | Exception:
        if self._replay:
            return SessionMessage(jsonrpc_message_adapter.validate_python(self._replay.popleft()))
        while await self._lines.wait_for_unhandled():
            message = await self._parse(self._lines.take_line())
            if message is not None:
                return message
        raise anyio.EndOfStream

    async def aclose(self) -> None:
        self._lines.close()

    async def _parse(self, line: bytes) -> SessionMessage | None:
        if (key := find_repeated_key(line)) is not None:
            await self._lines.refuse_repeated_key(line, key)
            return None
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            await self._lines.refuse(line)
            return None
        if isinstance(message, JSONRPCRequest):
            if message.method != _LISTEN:
                self._writer.mark_pending(message.id)
        elif isinstance(message, JSONRPCNotification):
            if _has_id(line):  # a request with an invalid id: its sender waits for an answer
                await self._lines.refuse(line)
                return None
            if message.method == "notifications/cancelled":
                request = (message.params or {}).get("requestId")
                self._writer.mark_answered(request)
                self._handshake.cancel(request)
        return SessionMessage(message)


class _WriteStream(_Stream):
    """Sends the SDK's messages, except answers to replayed requests."""

    def __init__(self, writer: LineWriter, handshake: HandshakeServer) -> None:
        self._writer = writer
        self._handshake = handshake

    async def send(self, item: SessionMessage) -> None:
        message = item.message
        answered = message.id if isinstance(message, JSONRPCResponse | JSONRPCError) else None
        if self._handshake.is_replay(answered):
            return
        try:
            await self._writer.send_line(message.model_dump_json(by_alias=True, exclude_unset=True).encode())
        finally:
            self._writer.mark_answered(answered)


def _has_id(line: bytes) -> bool:
    return b'"id"' in line and "id" in json.loads(line)
