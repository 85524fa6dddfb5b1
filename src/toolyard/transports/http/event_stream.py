"""Buffers progress and output of a running call for a client that may read slowly.

An EventStream lives on the event loop of its response; `add_output` may be called from any thread. It never blocks
the tool: if the client reads too slowly, output beyond a limit is dropped and counted, and only the last progress is
kept. The result contains the complete output.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import threading
from collections.abc import AsyncGenerator
from typing import Any

from toolyard.core.limits import KIB

_MAX_BUFFERED_BYTES = 256 * KIB


class EventStream:
    """The progress and output lines of one call."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._is_closed = False
        self._progress: dict[str, Any] | None = None
        self._lock = threading.Lock()  # guards the three below, which other threads change
        self._chunks: list[tuple[str, bytearray]] = []
        self._buffered_bytes = 0
        self._dropped: dict[str, int] = {}
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {stream: decoder("replace") for stream in ("stdout", "stderr")}

    async def set_progress(self, done: float, total: float | None, message: str) -> None:
        """Replaces the progress that was not sent yet."""
        self._progress = {"type": "progress", "done": round(done, 3), "total": total, "message": message}
        self._wake.set()

    def add_output(self, stream: str, data: bytes, /) -> None:
        """Adds output of the tool. Callable from any thread."""
        with self._lock:
            was_empty = not self._chunks
            if self._buffered_bytes + len(data) > _MAX_BUFFERED_BYTES:
                self._dropped[stream] = self._dropped.get(stream, 0) + len(data)
                return
            self._buffered_bytes += len(data)
            if was_empty or self._chunks[-1][0] != stream:
                self._chunks.append((stream, bytearray()))
            self._chunks[-1][1].extend(data)
        if was_empty:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and the client gone
                self._loop.call_soon_threadsafe(self._wake.set)

    def close(self) -> None:
        """Marks the end of the stream. Must be called on the loop."""
        self._is_closed = True
        self._wake.set()

    async def lines(self) -> AsyncGenerator[dict[str, Any]]:
        """Yields lines as they arrive, until `close()`."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            is_last = self._is_closed
            for line in self._take_lines(is_last=is_last):
                yield line
            if is_last:
                return

    def _take_lines(self, *, is_last: bool) -> list[dict[str, Any]]:
        with self._lock:
            printed, dropped = self._chunks, self._dropped
            self._chunks, self._dropped, self._buffered_bytes = [], {}, 0
        lines = [_output_line(stream, self._decoders[stream].decode(data)) for stream, data in printed]
        for stream, decoder in self._decoders.items():
            if stream in dropped or is_last:
                lines.append(_output_line(stream, decoder.decode(b"", final=True)))  # an incomplete character
                decoder.reset()
            if stream in dropped:
                lines.append({**_output_line(stream, ""), "dropped": dropped[stream]})
        non_empty = [line for line in lines if line["text"] or "dropped" in line]
        progress, self._progress = self._progress, None
        return non_empty if progress is None else [*non_empty, progress]


def _output_line(stream: str, text: str) -> dict[str, Any]:
    return {"type": "output", "stream": stream, "text": text}
