"""What a call has to tell while it runs, on its way to a caller who may read slowly.

An Outbox lives on the event loop of its response; `add_output` may be called from any thread. It never makes the tool
wait: of what is not read in time, output past a bound is left out and counted, and of progress only the last is kept.
The result has the output whole.
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
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._is_closed = False
        self._progress: dict[str, Any] | None = None
        self._lock = threading.Lock()  # over the three below, which threads add to
        self._chunks: list[tuple[str, bytearray]] = []
        self._buffered_bytes = 0
        self._dropped: dict[str, int] = {}
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {stream: decoder("replace") for stream in ("stdout", "stderr")}

    async def set_progress(self, done: float, total: float | None, message: str) -> None:
        self._progress = {"type": "progress", "done": round(done, 3), "total": total, "message": message}
        self._wake.set()

    def add_output(self, stream: str, data: bytes, /) -> None:
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
            with contextlib.suppress(RuntimeError):  # the loop has ended, and the caller with it
                self._loop.call_soon_threadsafe(self._wake.set)

    def close(self) -> None:
        """Say that nothing follows. On the loop."""
        self._is_closed = True
        self._wake.set()

    async def lines(self) -> AsyncGenerator[dict[str, Any]]:
        """What there is to tell, as it comes, until `close()`."""
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
                lines.append(_output_line(stream, decoder.decode(b"", final=True)))  # a letter that was cut in two
                decoder.reset()
            if stream in dropped:
                lines.append({**_output_line(stream, ""), "dropped": dropped[stream]})
        kept = [line for line in lines if line["text"] or "dropped" in line]
        progress, self._progress = self._progress, None
        return kept if progress is None else [*kept, progress]


def _output_line(stream: str, text: str) -> dict[str, Any]:
    return {"type": "output", "stream": stream, "text": text}
