"""The frames that host and supervisor exchange over one byte stream.

A frame is a header (the run's number, the kind, the length of the body) and a body. Frames from the host are trusted
and carry plain values in `marshal` form, which needs no import. Frames from the supervisor contain bytes and fixed
numbers, because agent code controls part of them. `docs/sandbox-internals.md` describes every kind.
"""

from __future__ import annotations

import marshal
import os
from _struct import Struct  # `struct` itself would import more than a cold start can afford

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROTOCOL = 1

# host to supervisor
SETUP, RUN, KILL, DROP, TERMINATE = 1, 2, 3, 4, 5
# supervisor to host
READY, OUT, ERR, VALUE, FOLDER, EXIT, BROKEN = 16, 17, 18, 19, 20, 21, 22
CHANGES, RECORDED = 23, 24

NO_RUN = 0
MOST_BODY = 64 * 1024 * 1024
_MARSHAL_VERSION = 2  # readable by every Python, whichever is inside

_HEADER = Struct("<IBI")
HEADER_SIZE = _HEADER.size

# How a run ended, its exit code (or the negative signal number), and how many leftover processes were killed.
EXIT_STATUS = Struct("<BiI")
BY_ITSELF, KILLED, TOO_MUCH_OUTPUT = 0, 1, 2

# The header of one path in CHANGES: when it changed, whether everything beneath it did too, its length.
CHANGE_HEADER = Struct("<QBH")
# The body of RECORDED: whether CHANGES list everything that the run changes.
COMPLETE, INCOMPLETE = b"1", b"0"


def frame(run: int, kind: int, body: bytes = b"") -> bytes:
    """Builds one frame."""
    return _HEADER.pack(run, kind, len(body)) + body


def pack_values(values: dict[str, Any]) -> bytes:
    """Serialises the values of a frame from the host."""
    return marshal.dumps(values, _MARSHAL_VERSION)


def unpack_values(body: bytes) -> object:
    """Deserialises the body of a frame from the host. Never use it on other input: marshal is not safe."""
    return marshal.loads(body)  # noqa: S302 - see the docstring


class FrameParser:
    """Splits a byte stream into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, int, bytes]]:
        """Returns the frames that are complete now, as (run, kind, body).

        Raises ValueError if the stream is invalid.
        """
        self._buffer += data
        found: list[tuple[int, int, bytes]] = []
        at = 0
        held = self._buffer
        while len(held) - at >= HEADER_SIZE:
            run, kind, length = _HEADER.unpack_from(held, at)
            if length > MOST_BODY:
                raise ValueError("a frame is longer than any can be")
            end = at + HEADER_SIZE + length
            if len(held) < end:
                break
            found.append((run, kind, bytes(held[at + HEADER_SIZE : end])))
            at = end
        if at:
            del held[:at]
        return found


def write_all(fd: int, data: bytes) -> None:
    """Writes all of `data` to a blocking descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_exactly(fd: int, size: int) -> bytes:
    """Reads `size` bytes. Raises EOFError if the stream ends first."""
    parts: list[bytes] = []
    while size:
        part = os.read(fd, min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


LENGTH_PREFIX = Struct("<I")
