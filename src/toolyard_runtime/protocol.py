"""The frames that host and warden exchange over one byte stream.

A frame is a header (the run's number, the kind, the length of the body) and a body. What the host sends is trusted
and carries plain values in `marshal` form, which costs no import; what the warden sends is bytes and fixed numbers,
because code of the agent had its hands on part of it. `docs/sandbox.md` describes every kind.
"""

from __future__ import annotations

import marshal
import os
from _struct import Struct  # `struct` itself would import more than a cold start can afford

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROTOCOL = 1

# host to warden
SETUP, RUN, KILL, DROP, TERMINATE = 1, 2, 3, 4, 5
# warden to host
READY, OUT, ERR, VALUE, FOLDER, EXIT, BROKEN = 16, 17, 18, 19, 20, 21, 22
CHANGES, RECORDED = 23, 24

NO_RUN = 0
MOST_BODY = 64 * 1024 * 1024
_MARSHAL_VERSION = 2  # readable by every Python, whichever is inside

_HEADER = Struct("<IBI")
HEADER_SIZE = _HEADER.size

# How a run ended, its exit code (or minus the signal), processes it left behind that were ended.
EXIT_STATUS = Struct("<BiI")
BY_ITSELF, KILLED, TOO_MUCH_OUTPUT = 0, 1, 2

# One path of CHANGES, which follows: when it changed, whether all beneath it did too, its length.
CHANGE_HEADER = Struct("<QBH")
# Of RECORDED: CHANGES name all that the run changes; or they do not, or not any more.
COMPLETE, INCOMPLETE = b"1", b"0"


def frame(run: int, kind: int, body: bytes = b"") -> bytes:
    return _HEADER.pack(run, kind, len(body)) + body


def pack_values(values: dict[str, Any]) -> bytes:
    return marshal.dumps(values, _MARSHAL_VERSION)


def unpack_values(body: bytes) -> object:
    """Only for what the host sent: marshal is not safe to read from a stranger."""
    return marshal.loads(body)  # noqa: S302 - see the docstring


class FrameParser:
    """Bytes in, whole frames out."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, int, bytes]]:
        """The frames that are complete now, as (run, kind, body). ValueError when the stream makes no sense."""
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
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_exactly(fd: int, size: int) -> bytes:
    """`size` bytes, or EOFError."""
    parts: list[bytes] = []
    while size:
        part = os.read(fd, min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


LENGTH_PREFIX = Struct("<I")
