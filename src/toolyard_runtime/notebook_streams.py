"""Standard input and output of the code in a notebook.

The caller puts the run's pipes at descriptors 1 and 2; this module owns the text streams over them, but not the
descriptors. Both streams are line-buffered, so a killed run has already printed its complete lines, and both are
flushed when a run ends, even if the code replaced `sys.stdout`. When a run ends, the streams and descriptors are
restored to what they were when it began, whatever the code closed or redirected.

A thread that a run leaves behind must not write into the output of the next run. Its text is collected, with a bound,
and reported in that run's notes. Threads of executors are exempt: they print for the code that gives them work.
"""

from __future__ import annotations

import io
import os
import sys
from _thread import get_ident

from toolyard_runtime.notebook_text import shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from threading import Thread
    from typing import Any

STDIN, STDOUT, STDERR = 0, 1, 2
LEFTOVER_CHARS = 5_000

# Text before bytes: flushing the one fills the other.
_BUFFERED_TYPES = (io.TextIOWrapper, io.BufferedRandom, io.BufferedWriter)


class LeftoverOutput:
    """The output of threads of earlier runs, and the set of those threads."""

    def __init__(self) -> None:
        self.threads: set[Thread] = set()
        self._parts: list[str] = []
        self._size = 0

    def is_leftover_thread(self) -> bool:
        """Whether the current thread was left behind by an earlier run."""
        if not self.threads:
            return False
        import threading

        return get_ident() != threading.main_thread().ident and threading.current_thread() in self.threads

    def mark_running_threads(self) -> None:
        """Marks every thread that runs now as left behind."""
        threading = sys.modules.get("threading")
        if threading is None or threading.active_count() == 1:
            self.threads = set()
            return
        pools = sys.modules.get("concurrent.futures.thread")
        workers = set(getattr(pools, "_threads_queues", ()))
        main = threading.main_thread()
        self.threads = {thread for thread in threading.enumerate() if thread is not main} - workers

    def add(self, text: str) -> int:
        """Stores text and drops the oldest part of it if there is too much."""
        self._parts.append(text)
        self._size += len(text)
        while self._size > 2 * LEFTOVER_CHARS and len(self._parts) > 1:
            self._size -= len(self._parts.pop(0))
        return len(text)

    def pop_text(self) -> str:
        """Returns and clears the stored text."""
        parts, self._parts, self._size = self._parts, [], 0
        return shorten("".join(parts).rstrip(), LEFTOVER_CHARS)


class DescriptorStream(io.TextIOWrapper):
    """A text stream to a descriptor that it does not own."""

    def __init__(self, descriptor: int, leftover: LeftoverOutput) -> None:
        self._raw = io.FileIO(descriptor, "w", closefd=False)
        self._leftover = leftover
        super().__init__(
            io.BufferedWriter(self._raw),
            encoding="utf-8",
            errors="backslashreplace",
            newline="\n",
            line_buffering=True,
        )

    def write(self, text: str, /) -> int:
        if self._leftover.threads and self._leftover.is_leftover_thread():
            return self._leftover.add(text)
        return super().write(text)

    def abandon(self) -> None:
        """Drops unwritten text, so that it does not appear in a later run."""
        self._raw.close()


class StandardStreams:
    """The standard streams of a notebook."""

    def __init__(self) -> None:
        self.leftover = LeftoverOutput()
        self._out: DescriptorStream | None = None
        self._err: DescriptorStream | None = None
        self._in: io.TextIOWrapper | None = None
        self._saved: dict[int, int] = {}

    def begin_run(self) -> None:
        """Makes sys.stdin, sys.stdout and sys.stderr usable, and saves the descriptors beneath them."""
        for descriptor in (STDIN, STDOUT, STDERR):
            _open_if_closed(descriptor)
        self._restore()
        for descriptor in (STDIN, STDOUT, STDERR):
            try:
                self._saved[descriptor] = os.dup(descriptor)
            except OSError:  # the code uses all descriptors: continue without a copy
                break

    def end_run(self) -> None:
        """Flushes what the code wrote, and restores streams and descriptors."""
        for stream in (getattr(sys, "stdout", None), getattr(sys, "stderr", None)):
            if stream is not self._out and stream is not self._err:
                _flush(stream)
        for stream in (self._out, self._err):
            if stream is not None and not _flush(stream):
                stream.abandon()
        while self._saved:
            descriptor, copy = self._saved.popitem()
            _restore_descriptor(copy, descriptor)
        for descriptor in (STDIN, STDOUT, STDERR):
            _open_if_closed(descriptor)
        self._restore()
        self.leftover.mark_running_threads()

    def release(self) -> None:
        """Ends the capture of leftover output: no other run follows, so it belongs to the last one."""
        self.leftover.threads = set()
        late = self.leftover.pop_text()
        if late and self._out is not None:
            self._out.write(late + "\n")

    def _restore(self) -> None:
        if self._out is None or not _is_usable(self._out):
            self._out = DescriptorStream(STDOUT, self.leftover)
        if self._err is None or not _is_usable(self._err):
            self._err = DescriptorStream(STDERR, self.leftover)
        if self._in is None or not _is_usable(self._in):
            self._in = open(STDIN, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115 (kept)
        sys.stdin, sys.stdout, sys.stderr = self._in, self._out, self._err


def no_input(prompt: object = "", /) -> str:
    """Replaces input(): raises EOFError, because no user can type here."""
    print(prompt, end="", flush=True)  # noqa: T201 (what input does with its prompt)
    raise EOFError("input() cannot be answered here; put the value in the code or read it from a file")


def flush_open_files() -> None:
    """Flushes open files. The garbage collector may close a text file's buffer first and lose its text."""
    import gc

    files = [item for item in gc.get_objects() if type(item) in _BUFFERED_TYPES]
    for file in sorted(files, key=lambda item: _BUFFERED_TYPES.index(type(item))):
        _flush(file)


def _is_usable(stream: io.TextIOWrapper) -> bool:
    try:
        return not stream.closed and stream.fileno() >= 0
    except (ValueError, OSError):  # detached, or abandoned
        return False


def _flush(stream: Any) -> bool:
    try:
        stream.flush()
    except Exception:  # noqa: BLE001 (the stream may be any object, or its descriptor closed)
        return False
    return True


def _restore_descriptor(copy: int, descriptor: int) -> None:
    """Restores the descriptor from its copy, and closes the copy."""
    try:
        if not _is_same_file(copy, descriptor):
            os.dup2(copy, descriptor)
        os.close(copy)
    except OSError:  # the code closed the copy: nothing can be restored
        return


def _is_same_file(one: int, other: int) -> bool:
    try:
        return os.path.sameopenfile(one, other)
    except OSError:
        return False


def _open_if_closed(descriptor: int) -> None:
    try:
        os.fstat(descriptor)
    except OSError:
        null = os.open(os.devnull, os.O_RDWR)
        if null != descriptor:
            os.dup2(null, descriptor)
            os.close(null)
        os.set_inheritable(descriptor, True)  # noqa: FBT003 (the function takes it by position only)
