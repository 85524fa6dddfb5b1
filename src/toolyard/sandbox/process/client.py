"""The host's end of a supervisor: one process to talk to, any number of concurrent runs.

A SandboxProcess owns the process it is given and the channel to it. One thread reads frames and delivers each to its
run. The caller of `run` waits in its own thread, enforces the deadline and decides when to stop. When the channel
ends, for any reason, every active run ends as LOST and every later one raises NotStarted: the owner then starts
another process. `close()` shuts the channel down, which makes the supervisor exit and ends everything inside; it
kills the process if that does not happen.

A channel is a byte stream to the supervisor: a socket on one machine, else the pipes of a client program. `receive`
returns b"" once the other side is gone. `shut_down` may be called from any thread and ends a blocked `receive`:
immediately for a socket, once the program has exited for pipes.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import IO, Final, Protocol, cast

from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault
from toolyard.core.limits import MIB
from toolyard.sandbox.process.change_recording import ChangeFrameReader
from toolyard.sandbox.spec import OutputSink, RunEnding, RunRequest, RunResult, RunSetup, Stream
from toolyard_runtime import protocol

Frame = tuple[int, bytes]

LOST: Final = -1
OVERFLOWED: Final = -2

_MAX_QUEUED_BYTES: Final = 8 * MIB
_FRAME_OVERHEAD_BYTES: Final = 128  # memory that a frame takes besides its body
_FULL_WAIT_SECONDS: Final = 2.0
_OUTPUT_SLACK_BYTES: Final = 1 * MIB
_FINAL_FRAMES: Final = frozenset({protocol.EXIT, LOST})
_OUTPUT_FRAMES: Final = frozenset({protocol.OUT, protocol.ERR})
_CHUNK = 1 << 18
_READY_SECONDS = 20.0
_TICK_SECONDS = 0.02  # between checks of the clock and the cancel flag
_WATCH_SECONDS = 0.05  # between checks of the disk
_GRACE_SECONDS = 2.0  # between SIGTERM and SIGKILL
_STOP_SECONDS = 5.0  # a killed run reports its end within this, or the process is discarded
_EXIT_SECONDS = 2.0
_STREAMS = {protocol.OUT: Stream.OUT, protocol.ERR: Stream.ERR}
_CHANGE_FRAMES = frozenset({protocol.CHANGES, protocol.RECORDED})
_SETUP_REPLIES = frozenset({protocol.READY, protocol.BROKEN})
_MAX_ANSWER_PARTS = 100_000  # of an answer: a few bytes a part could become gigabytes in memory
_SIGNAL_CODES = 128
_SIGTERM, _SIGKILL = 15, 9
_NOT_STARTED_EXIT_CODE = 124  # as timeout(1) does
_MESSAGE_BYTES = 2_000
_HINT = "Run `toolyard doctor` to see what this machine offers."

_GRACEFUL_ENDINGS = frozenset({RunEnding.TIMEOUT, RunEnding.CANCELLED})
"""These endings send SIGTERM first, and SIGKILL after a grace period; runs that exceed a limit are killed at once."""

RunWatch = Callable[[], str | None]
"""Called regularly while a run is active; returns why the run has to end, or None."""


class NotStarted(Exception):  # noqa: N818 - where it was meant for, not what is wrong with it
    """The sandbox process was gone before the request reached it: none of it was executed."""


class SandboxProcess(Closeable):
    """The connection to one supervisor and the runs inside it."""

    def __init__(
        self, process: subprocess.Popen[bytes], channel: Channel, setup: RunSetup, first_process: int | None = None
    ) -> None:
        self.process = process
        self._first_process = _open_pidfd(first_process)
        self._channel = channel
        self._setup = setup
        self._numbers = itertools.count(1)
        self._runs: dict[int, FrameQueue] = {}
        self._session_locks: dict[str, threading.Lock] = {}
        self._sessions: set[str] = set()
        self._sessions_lock = threading.Lock()
        self._send_lock = threading.Lock()
        self._setup_replies: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self._is_set_up = False
        self._disconnected = threading.Event()
        self._reader = threading.Thread(target=self._read, name="toolyard-box", daemon=True)
        self._reader.start()

    @property
    def is_up(self) -> bool:
        """Whether the supervisor can still be reached."""
        return not self._disconnected.is_set()

    def set_up(self, setup: Mapping[str, object]) -> None:
        """Sends the setup and waits until the restrictions are in place. Otherwise closes and raises SystemFault."""
        of_runs = {
            "shell": self._setup.shell,
            "environment": dict(self._setup.environment),
            "limits": dict(self._setup.limits),
        }
        try:
            self._send(protocol.NO_RUN, protocol.SETUP, protocol.pack_values({**setup, **of_runs}))
            kind, body = self._setup_replies.get(timeout=_READY_SECONDS)
        except (queue.Empty, OSError):
            kind, body = protocol.BROKEN, b""
        self._is_set_up = True
        if kind != protocol.READY or body != str(protocol.PROTOCOL).encode():
            self._channel.shut_down()
            reason = body.decode("utf-8", "replace") or self._stderr_text() or "it gave no reason"
            self.close()
            raise SystemFault(f"The sandbox did not start: {reason}", hint=_HINT)

    def run(
        self,
        request: RunRequest,
        sink: OutputSink,
        cancelled: threading.Event,
        watch: RunWatch = lambda: None,
        changes: ChangeFrameReader | None = None,
    ) -> RunResult:
        """Runs one request to its end. Raises NotStarted if it can be run in another process instead."""
        waiting = _RunWaiter(request, sink, cancelled, watch, changes)
        if not request.session:
            return self._run(waiting)
        with self._sessions_lock:
            turn = self._session_locks.setdefault(request.session, threading.Lock())
        until = time.monotonic() + request.seconds
        ending = _acquire_session(turn, until, cancelled)
        if ending is not None:
            return RunResult(ending, _NOT_STARTED_EXIT_CODE)
        try:
            with self._sessions_lock:
                is_new = request.session not in self._sessions
                self._sessions.add(request.session)
            waiting.request = replace(request, seconds=until - time.monotonic())
            outcome = self._run(waiting)
            if outcome.value is None or outcome.ending is not RunEnding.FINISHED:
                # The session ended, or its answer was invalid: then it still runs and must not be reused by its name.
                self.drop_session(request.session)
            return replace(outcome, session_is_new=is_new)
        finally:
            turn.release()

    def drop_session(self, name: str) -> bool:
        """Ends a Python session. Returns False if there was none."""
        with self._sessions_lock:
            known = name in self._sessions
            self._sessions.discard(name)
        if known:
            with contextlib.suppress(OSError):
                self._send(protocol.NO_RUN, protocol.DROP, name.encode())
        return known

    def kill(self) -> None:
        """Kills everything inside at once."""
        if self._first_process is not None:  # killing only the process in between would leave it running
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first_process, signal.SIGKILL)
        self.process.kill()

    def close(self) -> None:
        self._channel.shut_down()
        try:
            self.process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()
        if self._first_process is not None:
            os.close(self._first_process)
            self._first_process = None
        self._reader.join(_EXIT_SECONDS)
        self._channel.close()
        if self.process.stderr is not None:
            self.process.stderr.close()

    def _run(self, waiting: _RunWaiter) -> RunResult:
        request = waiting.request
        number = next(self._numbers)
        frames = self._runs[number] = FrameQueue(request.output_bytes or self._setup.output_bytes)
        try:
            self._send_request(number, request, records=waiting.changes is not None)
            waiting.stop = partial(self._stop, number)
            outcome = waiting.wait(frames)
        except OSError:
            return lost_result()
        finally:
            del self._runs[number]
            frames.close()
        if outcome.ending is RunEnding.LOST:  # it may only be unresponsive; it gets no further run
            self._disconnected.set()
        return outcome

    def _send_request(self, number: int, request: RunRequest, *, records: bool) -> None:
        if self._disconnected.is_set():
            raise NotStarted
        try:
            self._send(
                number, protocol.RUN, protocol.pack_values({**self._request_fields(request), "records": records})
            )
        except ConnectionError:  # at most a partial request arrived, which is never executed
            self._disconnected.set()
            raise NotStarted from None

    def _request_fields(self, request: RunRequest) -> dict[str, object]:
        return {
            "what": request.kind.value,
            "code": request.code,
            "session": request.session,
            "folder": request.folder or self._setup.workspace,
            "output_bytes": request.output_bytes or self._setup.output_bytes,
        }

    def _stop(self, number: int, how: int) -> None:
        with contextlib.suppress(OSError):
            self._send(number, how, b"")

    def _send(self, number: int, kind: int, body: bytes) -> None:
        with self._send_lock:
            self._channel.send(protocol.frame(number, kind, body))

    def _read(self) -> None:
        frames = protocol.FrameParser()
        with contextlib.suppress(ValueError):  # not valid frames: the peer is not our supervisor
            while data := self._channel.receive():
                for number, kind, body in frames.feed(data):
                    self._deliver(number, (kind, body))
        self._disconnected.set()
        self._setup_replies.put((protocol.BROKEN, b""))
        for number in tuple(self._runs):
            self._deliver(number, (LOST, b""))

    def _deliver(self, number: int, frame: Frame) -> None:
        if number == protocol.NO_RUN:
            if not self._is_set_up and frame[0] in _SETUP_REPLIES:
                self._setup_replies.put(frame)
        elif (waiting := self._runs.get(number)) is not None:
            waiting.put(frame)

    def _stderr_text(self) -> str:
        if self.process.stderr is None:
            return ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_EXIT_SECONDS)
        if self.process.poll() is None:
            return ""
        return self.process.stderr.read(_MESSAGE_BYTES).decode("utf-8", "replace").strip()


@dataclass(slots=True)
class _RunWaiter:
    """Waits for the end of one run, and ends it when its time is up."""

    request: RunRequest
    sink: OutputSink
    cancelled: threading.Event
    watch: RunWatch
    changes: ChangeFrameReader | None
    stop: Callable[[int], None] = lambda _: None
    """Sends protocol.TERMINATE or protocol.KILL to the run."""
    is_terminating: bool = False
    """Whether it was sent SIGTERM and its grace period has not passed."""
    ending: RunEnding = RunEnding.FINISHED
    reason: str = ""
    value: Mapping[str, object] | None = None
    folder: str = ""
    next_watch_at: float = 0.0

    def wait(self, frames: FrameQueue) -> RunResult:
        until = time.monotonic() + self.request.seconds
        self.next_watch_at = time.monotonic() + _WATCH_SECONDS
        while True:
            try:
                kind, body = frames.take(_TICK_SECONDS)
            except queue.Empty:
                kind, body = protocol.NO_RUN, b""
            if kind == LOST:
                return lost_result()
            if kind == protocol.EXIT:
                return self._result_from_exit(body)
            self._handle_frame(kind, body)
            if self.ending is RunEnding.FINISHED:
                if self._must_end(until, has_spilled=kind == OVERFLOWED):
                    until = self._request_stop(at_once=self.ending not in _GRACEFUL_ENDINGS)
            elif time.monotonic() > until:
                if not self.is_terminating:
                    return lost_result()
                until = self._request_stop(at_once=True)

    def _request_stop(self, *, at_once: bool) -> float:
        """Requests the run to end; returns the deadline for that."""
        self.is_terminating = not at_once
        self.stop(protocol.KILL if at_once else protocol.TERMINATE)
        return time.monotonic() + (_STOP_SECONDS if at_once else _GRACE_SECONDS)

    def _handle_frame(self, kind: int, body: bytes) -> None:
        stream = _STREAMS.get(kind)
        if stream is not None:
            self.sink(stream, body)
        elif self.changes is not None and kind in _CHANGE_FRAMES:
            self.changes.handle_frame(kind, body)
        elif self.changes is not None and kind == OVERFLOWED:
            self.changes.mark_incomplete()
        elif kind == protocol.VALUE:
            self.value = _parsed_answer(body)
        elif kind == protocol.FOLDER:
            self.folder = body.decode("utf-8", "surrogateescape").rstrip("\n")

    def _must_end(self, until: float, *, has_spilled: bool) -> bool:
        if self.cancelled.is_set():
            self.ending = RunEnding.CANCELLED
        elif has_spilled:
            self.ending = RunEnding.OUTPUT
        elif (now := time.monotonic()) >= until:
            self.ending = RunEnding.TIMEOUT
        elif now < self.next_watch_at:
            return False
        elif (reason := self.watch()) is not None:
            self.ending, self.reason = RunEnding.DISK, reason
        else:
            self.next_watch_at = now + _WATCH_SECONDS
        return self.ending is not RunEnding.FINISHED

    def _result_from_exit(self, body: bytes) -> RunResult:
        how, code, left = protocol.EXIT_STATUS.unpack(body)
        ending = RunEnding.OUTPUT if how == protocol.TOO_MUCH_OUTPUT else self.ending
        if how == protocol.BY_ITSELF:
            ending = RunEnding.FINISHED  # it finished before it could be stopped
        code = code if code >= 0 else _SIGNAL_CODES - code
        if ending is RunEnding.TIMEOUT:  # whatever exit code a signal handler chose
            code = _SIGNAL_CODES + _SIGTERM
        return RunResult(ending, code, self.value, self.folder, left, self.reason)


class FrameQueue(Closeable):
    """The frames of one run, between the thread that reads those of all runs and the thread that waits for this run.

    A queue holds a bounded number of bytes. When it is full the reader waits for a while, which eventually makes the
    run wait. If nothing is taken for that long, or the run has printed more than it may, the run is abandoned: the
    waiting thread then gets OVERFLOWED, and after that only the run's end. The waiting thread owns the queue and
    closes it.
    """

    def __init__(self, max_output_bytes: int) -> None:
        """The supervisor ends a run that prints more than `max_output_bytes`; the limit is enforced here as well."""
        self._frames: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self._output_bytes_left = max_output_bytes + _OUTPUT_SLACK_BYTES
        self._queued_bytes = 0
        self._is_abandoned = False
        self._room_available = threading.Condition(threading.Lock())

    def put(self, frame: Frame) -> None:
        """Adds a frame. Only the reader's thread may call it."""
        kind, body = frame
        if kind in _FINAL_FRAMES:
            self._frames.put(frame)
            return
        size = len(body) + _FRAME_OVERHEAD_BYTES
        with self._room_available:
            if self._is_abandoned:
                return
            if kind in _OUTPUT_FRAMES:
                self._output_bytes_left -= len(body)
            has_room = self._room_available.wait_for(lambda: self._has_room_for(size), _FULL_WAIT_SECONDS)
            if self._is_abandoned:  # closed meanwhile
                return
            self._is_abandoned = not has_room or self._output_bytes_left < 0
            self._queued_bytes += size
        self._frames.put((OVERFLOWED, b"") if self._is_abandoned else frame)

    def take(self, seconds: float) -> Frame:
        """Returns the next frame. Raises queue.Empty after `seconds`."""
        frame = self._frames.get(timeout=seconds)
        with self._room_available:
            self._queued_bytes -= len(frame[1]) + _FRAME_OVERHEAD_BYTES
            self._room_available.notify()
        return frame

    def close(self) -> None:
        with self._room_available:
            self._is_abandoned = True
            self._room_available.notify()

    def _has_room_for(self, size: int) -> bool:
        return self._is_abandoned or self._queued_bytes <= 0 or self._queued_bytes + size <= _MAX_QUEUED_BYTES


class Channel(Protocol):
    """A byte stream to a supervisor."""

    def send(self, data: bytes) -> None: ...

    def receive(self) -> bytes: ...

    def shut_down(self) -> None: ...

    def close(self) -> None: ...


class SocketChannel:
    """A channel over one end of a socket pair."""

    def __init__(self, ours: socket.socket) -> None:
        self._socket = ours

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> bytes:
        try:
            return self._socket.recv(_CHUNK)
        except OSError:
            return b""

    def shut_down(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()


class PipeChannel:
    """A channel over the standard input and output of a client program."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._stdin, self._stdout = _require_pipe(process.stdin), _require_pipe(process.stdout)

    def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._stdin.fileno(), view) :]

    def receive(self) -> bytes:
        try:
            return os.read(self._stdout.fileno(), _CHUNK)
        except (OSError, ValueError):
            return b""

    def shut_down(self) -> None:
        with contextlib.suppress(OSError):
            self._stdin.close()

    def close(self) -> None:
        self.shut_down()
        self._stdout.close()


def _acquire_session(session_lock: threading.Lock, until: float, cancelled: threading.Event) -> RunEnding | None:
    """Acquires the session's lock: a session runs one request at a time.

    Returns the ending if the run cannot start.
    """
    while True:
        taken = session_lock.acquire(timeout=_TICK_SECONDS)
        ending = RunEnding.CANCELLED if cancelled.is_set() else RunEnding.BUSY if time.monotonic() > until else None
        if taken and ending is not None:
            session_lock.release()
        if taken or ending is not None:
            return ending


def _open_pidfd(pid: int | None) -> int | None:
    """Opens a pidfd for a process, because its pid may be reused."""
    if pid is None:
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # it is gone, or the kernel is too old
        return None


def lost_result() -> RunResult:
    """Returns the result of a run whose sandbox process went away."""
    return RunResult(RunEnding.LOST, _SIGNAL_CODES + _SIGKILL)


def _parsed_answer(body: bytes) -> Mapping[str, object] | None:
    """Returns the answer of the code's process; None if it is not a JSON object."""
    if sum(map(body.count, (b"{", b"[", b","))) > _MAX_ANSWER_PARTS:
        return None
    try:
        answer: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, object]", answer) if isinstance(answer, dict) else None


def _require_pipe(end: IO[bytes] | None) -> IO[bytes]:
    if end is None:
        raise SystemFault("The sandbox was started without pipes.", hint="Report this as a bug.")
    return end
