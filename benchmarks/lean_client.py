"""A lean MCP client, so that the client is not what is measured: prepared lines, no JSON parsing on the way.

Owns the server it starts; `close()` ends it. An answer that is an error ends the measurement: a refusal is quick and
must never count as a call.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any, cast

from toolyard.core.closeable import Closeable

_VERSION = "2025-11-25"
_CLOSE_SECONDS = 10
_ID = re.compile(rb'"id":\s*(\d+)')
_FAILURES = (b'"error":', b'"isError":true', b'"isError": true')
_SHOWN_BYTES = 300
_PIPE_BYTES = 1 << 16

Arguments = Mapping[str, Any]


class BenchFault(Exception):  # noqa: N818 - what went wrong with the measurement, not with a tool
    """A server did not answer as it should; no figure can be had."""


class Wire(Closeable):
    """One server over stdio, past its handshake."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )
        self._in = cast("IO[bytes]", self._process.stdin)
        self._out = open(cast("IO[bytes]", self._process.stdout).fileno(), "rb", _PIPE_BYTES, closefd=False)  # noqa: SIM115 - closed in close()
        self._last = 0
        greeting = {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        try:
            self.request("initialize", greeting)
            self._write(_line({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._in.close()
        try:
            self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._out.close()
        cast("IO[bytes]", self._process.stdout).close()

    def request(self, method: str, params: Arguments) -> dict[str, Any]:
        """One request, with its answer as JSON: for what is not timed."""
        self._last += 1
        self._write(_line({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}))
        return cast("dict[str, Any]", json.loads(self._answer()[1]))

    def sequential(self, tool: str, calls: Sequence[Arguments]) -> float:
        """Calls per second, each sent when the one before is answered."""
        lines = self._prepared(tool, calls)
        started = time.perf_counter()
        for line in lines:
            self._write(line)
            self._answer()
        return len(lines) / (time.perf_counter() - started)

    def in_flight(self, tool: str, lanes: Sequence[Sequence[Arguments]]) -> float:
        """Calls per second with one call of each lane under way; a lane goes on when its own call is answered."""
        waiting = [list(reversed(self._prepared(tool, lane))) for lane in lanes]
        lane_of = {_number(line): lane for lane, lines in enumerate(waiting) for line in lines}
        total = len(lane_of)
        started = time.perf_counter()
        for lines in waiting:
            self._write(lines.pop())
        for _ in range(total):
            number, _answer = self._answer()
            lines = waiting[lane_of[number]]
            if lines:
                self._write(lines.pop())
        return total / (time.perf_counter() - started)

    def _prepared(self, tool: str, calls: Sequence[Arguments]) -> list[bytes]:
        lines: list[bytes] = []
        for arguments in calls:
            self._last += 1
            params = {"name": tool, "arguments": arguments}
            lines.append(_line({"jsonrpc": "2.0", "id": self._last, "method": "tools/call", "params": params}))
        return lines

    def _write(self, line: bytes) -> None:
        view = memoryview(line)
        while view:
            view = view[self._in.write(view) :]

    def _answer(self) -> tuple[int, bytes]:
        """The next response; notifications in between are passed over."""
        while True:
            line = self._out.readline()
            if not line:
                raise BenchFault("The server closed its output.")
            found = _ID.search(line)
            if found is None or b'"method":' in line:
                continue
            if any(mark in line for mark in _FAILURES):
                raise BenchFault(f"A call failed: {line[:_SHOWN_BYTES].decode('utf-8', 'replace')}")
            return int(found[1]), line


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _number(line: bytes) -> int:
    found = _ID.search(line)
    if found is None:
        raise BenchFault("A prepared request has no id.")
    return int(found[1])
