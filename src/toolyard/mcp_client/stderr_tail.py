"""Keeps the end of a server's output for `doctor`: its stderr, and stdout lines that are not messages."""

from __future__ import annotations

from collections import deque

from toolyard.core.limits import KIB
from toolyard.mcp_client.results import SecretMask

STDERR_BYTES = 64 * KIB
_ODD_LINES = 50
_ODD_CHARS = 500
_LAST_LINE_CHARS = 300


class OutputTail:
    """The bounded end of a server's output. It outlives the server, to explain its exit."""

    __slots__ = ("_mask", "_odd", "_stderr", "stderr_received")

    def __init__(self, mask: SecretMask) -> None:
        self._mask = mask
        self._stderr = bytearray()
        self.stderr_received = 0
        """Bytes so far."""
        self._odd: deque[str] = deque(maxlen=_ODD_LINES)

    def add_stderr(self, data: bytes) -> None:
        self._stderr += data
        self.stderr_received += len(data)
        if len(self._stderr) > 2 * STDERR_BYTES:  # rarely: each cut moves the rest
            del self._stderr[:-STDERR_BYTES]

    def add_stray_line(self, line: bytes | str) -> None:
        text = line if isinstance(line, str) else line[: 4 * _ODD_CHARS].decode(errors="replace")
        self._odd.append(text.strip()[:_ODD_CHARS])

    @property
    def stderr(self) -> str:
        return self._mask(bytes(self._stderr[-STDERR_BYTES:]).decode(errors="replace"))

    def stderr_since(self, received: int) -> str:
        """Returns what was printed after `received` bytes, as far as it is still held."""
        new = self.stderr_received - received
        return self._mask(bytes(self._stderr[-new:]).decode(errors="replace")) if new > 0 else ""

    @property
    def odd_lines(self) -> tuple[str, ...]:
        return tuple(self._mask(line) for line in tuple(self._odd))

    def last_line(self) -> str:
        """Returns the last non-empty line of stderr, or of stdout if there is none."""
        lines = [line.strip() for line in self.stderr.splitlines()[-20:]] or list(self.odd_lines)
        last = next((line for line in reversed(lines) if line), "")
        return last[:_LAST_LINE_CHARS]
