"""The connection from sandboxed code to the host's broker: its address, its frames, and blocking calls.

`TOOLYARD_BROKER` is the address: the path of a unix socket, or `fd:N`, a descriptor that passes connected sockets if
the sandbox does not allow connecting. A frame is a length of four bytes, little-endian, and that many bytes of JSON.

Blocking calls take a free connection, or open one. Every process has its own: a forked child closes what it inherited
and does not use its parent's. `channel` has the calls of event loops.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

from toolyard_runtime.errors import BrokerLost, InvalidArguments, exception_for

VARIABLE = "TOOLYARD_BROKER"
MOST_BYTES = 64 * 1024 * 1024
"""The maximum size of a frame, in both directions."""
LENGTH = struct.Struct("<I")
HEADER = LENGTH.size

_FD_PREFIX = "fd:"
_FULL_REPLY = b"-"
_MAX_CONNECTIONS = 32
"""Concurrent blocking calls of one process; others wait for a free connection."""
_CONNECT_SECONDS = 20
_TIME = struct.Struct("ll")
CHUNK = 1 << 16
_MAX_SOCKET_PATH_BYTES = 107  # bytes, of a socket's path

Progress = Callable[[float, "float | None", str], None]
Message = dict[str, Any]

_encode_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_decode_json = json.JSONDecoder().raw_decode


def encode_frame(message: Message) -> bytes:
    """Encodes a message. Raises InvalidArguments if JSON cannot represent it or it is too long."""
    try:
        body = _encode_json(message).encode()
    except (TypeError, ValueError, RecursionError) as error:
        hint = "Use text, numbers, booleans, None, lists and dictionaries with text as keys."
        raise _invalid_arguments(message, f"The arguments cannot be sent as JSON: {error}. {hint}") from None
    if len(body) > MOST_BYTES:
        size = f"{len(body) >> 20} MiB of arguments, and at most {MOST_BYTES >> 20} MiB can be sent"
        raise _invalid_arguments(message, f"These are {size}. Write them to a file and pass its path.")
    return LENGTH.pack(len(body)) + body


def _invalid_arguments(message: Message, why: str) -> InvalidArguments:
    return InvalidArguments(why, message.get("server", ""), message.get("tool", ""))


def decode_body(body: bytes | bytearray) -> Message:
    """Decodes a message, twice as fast as json.loads, which would detect the encoding first."""
    return _decode_json(body.decode())[0]


def frame_length(header: bytes | bytearray) -> int:
    """Returns the length from a frame's header. Raises BrokerLost if it is too large."""
    (length,) = LENGTH.unpack_from(header)
    if length > MOST_BYTES:
        raise BrokerLost("The broker sent an invalid frame. Call again: the next call reconnects.")
    return length


def exception_from_error(error: Message) -> Exception:
    """Returns the exception for an answer's `error`."""
    return exception_for(
        error["kind"],
        error["message"],
        server=error.get("server", ""),
        tool=error.get("tool", ""),
        content=error.get("content", ()),
    )


def report_progress(progress: Progress, update: Message) -> None:
    """Calls `progress` with the broker's update."""
    progress(update["done"], update.get("total"), update.get("message", ""))


def connection_lost(message: Message | None, why: str = "") -> BrokerLost:
    """Returns the error of a call that was in flight when the connection ended."""
    server, tool = (message.get("server", ""), message.get("tool", "")) if message else ("", "")
    name = ".".join(filter(None, (server, tool))) or "The call"
    reason = why or "The connection to Toolyard ended."
    return BrokerLost(
        f"{reason} {name} may or may not have been carried out. The next call reconnects.", server, tool
    )


def connect() -> socket.socket:
    """Opens a connection. Raises RuntimeError if there is no broker, BrokerLost if it cannot be reached."""
    address = os.environ.get(VARIABLE, "")
    if not address:
        raise RuntimeError(
            "There is no broker here, so no tool can be called. Run the code with execute_python, or with "
            "`toolyard exec --config toolyard.yaml FILE`."
        )
    try:
        return (
            _connect_through_descriptor(int(address[len(_FD_PREFIX) :]))
            if address.startswith(_FD_PREFIX)
            else _connect_to_path(address)
        )
    except OSError as error:
        why = f"Toolyard's broker cannot be reached ({error.strerror or error})."
        raise BrokerLost(f"{why} It may be restarting: call again in a moment.") from None


def _connect_to_path(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    try:
        # The kernel's own timeout: with Python's, a full backlog would be an immediate error.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIME.pack(_CONNECT_SECONDS, 0))
        if len(os.fsencode(path)) <= _MAX_SOCKET_PATH_BYTES:
            made.connect(path)
        else:
            folder = os.open(os.path.dirname(path), os.O_PATH | os.O_CLOEXEC)
            try:
                made.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
            finally:
                os.close(folder)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIME.pack(0, 0))
    except BaseException:
        made.close()
        raise
    return made


def _connect_through_descriptor(number: int) -> socket.socket:
    """Gets a connection through the descriptor that this process inherited."""
    try:
        there = socket.socket(fileno=os.dup(number))
    except OSError:
        hint = (
            f"In this sandbox a program needs descriptor {number}: start it with subprocess's pass_fds=({number},)."
        )
        raise BrokerLost(f"The way to Toolyard's broker was closed when this program was started. {hint}") from None
    with there:
        there.settimeout(_CONNECT_SECONDS)
        there.send(b"?")
        reply, handed, _, _ = socket.recv_fds(there, 1, 1)
    if not handed:
        why = "too many connections are open" if reply == _FULL_REPLY else "it is gone"
        raise BrokerLost(f"Toolyard's broker gave no connection: {why}. Call again later.")
    return socket.socket(fileno=handed[0])


class BlockingConnection:
    """One connection that carries one blocking call at a time."""

    __slots__ = ("_buffer", "_held", "_socket")

    def __init__(self) -> None:
        self._socket = connect()
        self._held = bytearray()
        self._buffer = memoryview(bytearray(CHUNK))  # reused: a new one for each answer costs more than the call

    def send(self, frame: bytes) -> bool:
        """Sends a frame.

        Returns False if the broker is gone: then the call was not executed, as it did not arrive whole.
        """
        try:
            self._socket.sendall(frame)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def receive(self) -> Message | None:
        """Returns the next frame; None if the connection has ended."""
        held = self._held
        while len(held) < HEADER:
            if not self._receive_more():
                return None
        end = HEADER + frame_length(held)
        while len(held) < end:
            if not self._receive_more():
                return None
        body = held[HEADER:end]
        del held[:end]
        return decode_body(body)

    def _receive_more(self) -> bool:
        try:
            size = self._socket.recv_into(self._buffer)
        except ConnectionResetError:
            return False
        self._held += self._buffer[:size]
        return size > 0

    def close(self) -> None:
        self._socket.close()

    def __del__(self) -> None:
        if hasattr(self, "_socket"):
            self._socket.close()


class ConnectionPool:
    """The connections of this process for blocking calls. Thread-safe."""

    def __init__(self) -> None:
        self._free: list[BlockingConnection | None] = [None] * _MAX_CONNECTIONS
        """A stack of free connections; None stands for the right to open one."""
        self._waiter_count = 0
        self._freed = threading.Condition()

    def call(self, message: Message, progress: Progress | None) -> Any:
        """Sends a request on a free connection and waits for its result."""
        frame = encode_frame(message)
        line = self._acquire()
        try:
            line = _send_or_reconnect(line, frame)
            answer = _read_answer(line, message, progress)
        except BaseException:
            if line is not None:
                line.close()  # an answer may still arrive on it; closing makes the host cancel the call
            self._release(None)
            raise
        self._release(line)
        if "error" in answer:
            raise exception_from_error(answer["error"])
        return answer["result"]

    def _acquire(self) -> BlockingConnection | None:
        while True:
            try:
                return self._free.pop()
            except IndexError:
                self._wait_for_free()

    def _wait_for_free(self) -> None:
        with self._freed:
            self._waiter_count += 1
            try:
                self._freed.wait_for(lambda: self._free)
            finally:
                self._waiter_count -= 1

    def _release(self, connection: BlockingConnection | None) -> None:
        if connection is None:
            self._free.insert(0, None)
        else:
            self._free.append(connection)
        if self._waiter_count:
            with self._freed:
                self._freed.notify()


def _send_or_reconnect(connection: BlockingConnection | None, frame: bytes) -> BlockingConnection:
    """Sends the frame and returns the connection; a new one if the broker was restarted since the last call."""
    if connection is not None:
        if connection.send(frame):
            return connection
        connection.close()
    connection = BlockingConnection()
    if not connection.send(frame):
        connection.close()
        raise connection_lost(None)
    return connection


def _read_answer(connection: BlockingConnection, message: Message, progress: Progress | None) -> Message:
    while True:
        answer = connection.receive()
        if answer is None:
            raise connection_lost(message)
        if answer["id"] != message["id"]:
            raise connection_lost(message, answer["error"]["message"] if "error" in answer else "")
        update = answer.get("progress")
        if update is None:
            return answer
        if progress is not None:
            report_progress(progress, update)


_pool = ConnectionPool()


def call(message: Message, progress: Progress | None = None) -> Any:
    """Sends a request and waits for its result. Raises the exceptions of `errors`."""
    message["id"] = 1
    return _pool.call(message, progress)


def _reset_after_fork() -> None:
    """Drops inherited connections in a forked child: they belong to the parent."""
    global _pool  # noqa: PLW0603 - one for each process
    _pool = ConnectionPool()


os.register_at_fork(after_in_child=_reset_after_fork)
