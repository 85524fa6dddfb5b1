"""Client of the parser process.

An Outliner owns that process: it starts it with the first file and kills it when it is closed. If the process dies on
a file, that file has no outline by grammar and a new process is started for the next one; after a few such files none
is.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from toolyard.assistant.files.syntax.grammars import GRAMMARS
from toolyard.assistant.files.syntax.parser_process import PARSE_SECONDS, Entry
from toolyard.core.closeable import Closeable
from toolyard.core.limits import KIB, MIB

PARSED_BYTES = 1 * MIB
"""Larger files are rarely written by hand, and their trees take a hundred times as much memory."""
_MOST_CRASHES = 3
_POLL_MS = 20
_READ_BYTES = 64 * KIB
_GRACE_SECONDS = 5
"""For starting and answering, in addition to the time for parsing, which the process limits itself."""
_START_CODE = (
    "import sys; sys.path[:] = sys.argv[1:]; from toolyard.assistant.files.syntax.parser_process import main; main()"
)


@dataclass(frozen=True, slots=True)
class ParsedOutline:
    """The entries of a file."""

    entries: tuple[Entry, ...]
    left_out: int
    """Number of entries that follow these."""


class Outliner(Closeable):
    """Parses files in a separate process."""

    def __init__(self, check_time: Callable[[], None] = lambda: None) -> None:
        """`check_time` is called while it waits, and may raise."""
        self._check_time = check_time
        self._process: subprocess.Popen[bytes] | None = None
        self._crashes = 0

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # flushing what was not sent
                    pipe.close()

    def parse_outline(self, language: str, text: str) -> ParsedOutline | None:
        """Returns the entries of a file; None if there is no grammar, the file is too large, or the parser fails."""
        if language not in GRAMMARS or len(text) > PARSED_BYTES or self._crashes >= _MOST_CRASHES:
            return None
        data = text.encode("utf-8", "replace")
        if len(data) > PARSED_BYTES:
            return None
        try:
            answer = self._request(json.dumps([language, len(data)]).encode() + b"\n" + data)
            found: tuple[list[Any], int] | None = json.loads(answer)
        except (OSError, ValueError):  # the process died, and its answer is incomplete
            self._crashes += 1
            self.close()
            return None
        except BaseException:
            self.close()
            raise
        if found is None:
            return None
        entries, left_out = found
        return ParsedOutline(tuple((int(line), int(depth), str(text)) for line, depth, text in entries), left_out)

    def _request(self, request: bytes) -> bytes:
        process = self._process = self._process or _start_process()
        if process.stdin is None or process.stdout is None:
            raise BrokenPipeError
        process.stdin.write(request)
        process.stdin.flush()
        return self._read_answer(process.stdout.fileno())

    def _read_answer(self, fd: int) -> bytes:
        """Reads one line of output; less if the process ends or the time is up."""
        parts: list[bytes] = []
        deadline = time.monotonic() + PARSE_SECONDS + _GRACE_SECONDS
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        while time.monotonic() < deadline:
            self._check_time()
            if not poller.poll(_POLL_MS):
                continue
            part = os.read(fd, _READ_BYTES)
            parts.append(part)
            if not part or part.endswith(b"\n"):
                break
        return b"".join(parts)


def _start_process() -> subprocess.Popen[bytes]:
    # The child has the same import path, and an empty environment.
    return subprocess.Popen(
        (sys.executable, "-I", "-S", "-B", "-c", _START_CODE, *(path for path in sys.path if path)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={},
    )
