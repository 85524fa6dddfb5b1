"""The warden: the first process of a sandbox. Starts runs, relays what they print, ends what they leave behind.

Contract: it speaks `wire` frames on two descriptors (which may be one socket). The first frame sets it up, walls
included; it answers READY and then serves runs until the host's end of the stream closes, whatever the reason. Then
it exits, and the kernel ends every process of its namespace with it; where it has no namespace of its own it kills
its descendants first. It is single-threaded, imports next to nothing, and never runs a line of the agent's code in
itself: that happens in workers (`worker`), of which one is always forked ahead.
"""

from __future__ import annotations

import os
import select
import sys

from toolyard_runtime import processes, walls, wire, worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal

    from toolyard_runtime.worker import Request, Setup
else:  # `signal` itself would import more than a cold start can afford
    import _signal

_CHUNK = 1 << 16
_MOST_READ_AT_ONCE = 16 * _CHUNK  # so that one loud run does not hold up the others
_SPARE_AFTER_MS = 3
_PRELOAD_AFTER_MS = 5
_FOLDER_BYTES = 8192
_ANSWER_BYTES = 48 * 1024 * 1024


class Run:
    """One worker and, when it has been given one, the run it is busy with."""

    def __init__(self, pid: int, requests: int, reply: int, out: int, err: int) -> None:
        self.pid = pid
        self.requests, self.reply, self.out, self.err = requests, reply, out, err
        self.number = wire.NO_RUN
        self.session = ""
        self.is_python = False
        self.printed = 0
        self.most_output = 0
        self.answer = bytearray()
        self.how = wire.BY_ITSELF

    def give(self, number: int, request: Request) -> None:
        self.number = number
        self.session = request["session"]
        self.is_python = request["what"] == "python"
        self.printed, self.most_output = 0, request["output_bytes"]
        self.how = wire.BY_ITSELF
        self.answer.clear()
        body = wire.packed({**request})
        try:
            wire.write_all(self.requests, wire.LITTLE_LENGTH.pack(len(body)) + body)
        except BrokenPipeError:
            return  # it died just now; its end is told like any other

    def close(self) -> None:
        for fd in (self.requests, self.reply, self.out, self.err):
            os.close(fd)


class Warden:
    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._frames = wire.Frames()
        self._poll = select.poll()
        self._runs: dict[int, Run] = {}  # by pid
        self._by_fd: dict[int, Run] = {}
        self._sessions: dict[str, Run] = {}
        self._spare: Run | None = None
        self._setup: Setup | None = None
        self._to_import = list(worker.FIRST_STEPS)
        self._forwarder = 0
        self._woken, woken_by = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        _signal.set_wakeup_fd(woken_by, warn_on_full_buffer=False)
        _signal.signal(_signal.SIGCHLD, _wake_up)
        # A run may send it. The kernel keeps signals without a handler from a namespace's first process, and Python
        # brings a handler for this one.
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
        for fd in (incoming, self._woken):
            self._poll.register(fd, select.POLLIN)

    def serve(self) -> None:
        """Until the host is gone."""
        while True:
            events = self._poll.poll(self._patience())
            if not events:
                self._use_idle_time()
            for fd, _ in events:
                if fd == self._incoming:
                    data = os.read(fd, _CHUNK)
                    if not data:
                        return
                    for number, kind, body in self._frames.feed(data):
                        self._obey(number, kind, body)
                elif fd == self._woken:
                    os.read(fd, _CHUNK)
                    self._reap()
                    if self._spare is None:  # right after a run's end is when another may come
                        self._spare = self._forked()
                elif fd in self._by_fd:  # an earlier event of this round may have closed it
                    self._relay(self._by_fd[fd], fd, _MOST_READ_AT_ONCE)

    def leave(self) -> None:
        """End what is under way, where no namespace does it for us."""
        for run in self._runs.values():
            processes.end_tree(run.pid)
        processes.end_leftovers(set(), alone=True)
        scratch = self._setup.get("scratch") if self._setup is not None else None
        if scratch:
            import shutil

            shutil.rmtree(scratch, ignore_errors=True)

    def _obey(self, number: int, kind: int, body: bytes) -> None:
        if kind == wire.SETUP:
            self._set_up(wire.unpacked(body))  # type: ignore[arg-type]
        elif kind == wire.RUN:
            self._start(number, wire.unpacked(body))  # type: ignore[arg-type]
        elif kind == wire.KILL:
            for run in self._runs.values():
                if run.number == number:
                    run.how = wire.KILLED
                    self._end(run)
                    break
        elif kind == wire.DROP:
            run = self._sessions.pop(body.decode(), None)
            if run is not None:
                self._end(run)

    def _set_up(self, setup: Setup) -> None:
        self._setup = setup
        try:
            if os.getpid() != 1:
                walls.adopt_orphans()
            if setup["pid_max"]:
                with open("/proc/sys/kernel/pid_max", "w", encoding="ascii") as file:
                    file.write(str(setup["pid_max"]))
            if not setup["walls_in_worker"]:
                walls.raise_walls(setup["landlock"], setup["landlock_rules"], setup["seccomp"])
            walls.set_readable(by_siblings=False)
        except OSError as error:
            self._send(wire.NO_RUN, wire.BROKEN, f"{error.filename or ''}: {error.strerror}".encode())
            raise SystemExit(1) from None
        self._fork_forwarder()
        self._send(wire.NO_RUN, wire.READY, str(wire.PROTOCOL).encode())

    def _fork_forwarder(self) -> None:
        """Keep the way to the allowed hosts open: code inside may have ended the process that was it."""
        setup = self._setup
        if setup is None or not setup["forward"] or self._forwarder:
            return
        pid = os.fork()
        if pid == 0:
            worker.forward(setup["forward_port"], setup["forward"])
        self._forwarder = pid

    def _start(self, number: int, request: Request) -> None:
        run = self._sessions.get(request["session"]) if request["session"] else None
        if run is None:
            run = self._spare or self._forked()
            if run is None:
                self._refuse(number, b"No process could be started: the sandbox is full.\n")
                return
            if run is self._spare:
                self._spare = None
            if request["session"]:
                self._sessions[request["session"]] = run
        elif run.number:
            self._refuse(number, b"The session is busy with another run.\n")
            return
        else:
            self._discard_between(run)
        run.give(number, request)

    def _refuse(self, number: int, why: bytes) -> None:
        self._send(number, wire.ERR, why)
        self._send(number, wire.EXIT, wire.EXITED.pack(wire.BY_ITSELF, 1, 0))

    def _patience(self) -> int | None:
        """How long to wait for something to happen before idle time is put to use."""
        if self._setup is None:
            return None
        if self._spare is None:
            return _SPARE_AFTER_MS
        return _PRELOAD_AFTER_MS if self._to_import and not self._is_busy() else None

    def _use_idle_time(self) -> None:
        """One small step at a time: whoever asks for a run meanwhile waits for it."""
        if self._spare is None:
            self._spare = self._forked()
            return
        self._to_import += worker.preload(self._to_import.pop(0))
        if not self._to_import:
            spare, self._spare = self._spare, None
            processes.end_tree(spare.pid)

    def _is_busy(self) -> bool:
        return any(run.number or run.session for run in self._runs.values())

    def _forked(self) -> Run | None:
        setup = self._setup
        if setup is None:
            return None
        ours: list[int] = []
        theirs: list[int] = []
        for end in range(4):  # requests to it; answers, output and errors from it
            reader, writer = os.pipe2(os.O_CLOEXEC)
            ours.append(writer if end == 0 else reader)
            theirs.append(reader if end == 0 else writer)
        try:
            pid = os.fork()
        except OSError:
            for fd in (*ours, *theirs):
                os.close(fd)
            return None
        if pid == 0:
            worker.main(*theirs, setup=setup)
        for fd in theirs:
            os.close(fd)
        run = Run(pid, *ours)
        self._runs[pid] = run
        for fd in ours[1:]:
            os.set_blocking(fd, False)
            self._by_fd[fd] = run
            self._poll.register(fd, select.POLLIN)
        return run

    def _relay(self, run: Run, fd: int, most: int) -> None:
        """Pass on what is there to read, without waiting for more."""
        while most > 0:
            try:
                data = os.read(fd, _CHUNK)
            except BlockingIOError:
                return
            if not data:
                self._unwatch(fd)
                return
            most -= len(data)
            if fd == run.reply:
                self._answered(run, data)
            elif run.number and run.how != wire.TOO_MUCH_OUTPUT:
                self._printed(run, wire.OUT if fd == run.out else wire.ERR, data)

    def _unwatch(self, fd: int) -> None:
        if self._by_fd.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def _printed(self, run: Run, kind: int, data: bytes) -> None:
        room = run.most_output - run.printed
        run.printed += len(data)
        self._send(run.number, kind, data[:room])
        if len(data) > room:
            run.how = wire.TOO_MUCH_OUTPUT
            self._end(run)

    def _answered(self, run: Run, data: bytes) -> None:
        if len(run.answer) + len(data) > _ANSWER_BYTES:
            self._end(run)
            return
        run.answer += data
        if not run.is_python or len(run.answer) < wire.LITTLE_LENGTH.size:
            return
        (length,) = wire.LITTLE_LENGTH.unpack_from(run.answer)
        if len(run.answer) - wire.LITTLE_LENGTH.size < length:
            return
        for fd in (run.out, run.err):
            self._relay(run, fd, run.most_output)
        self._send(run.number, wire.VALUE, bytes(run.answer[wire.LITTLE_LENGTH.size :]))
        run.answer.clear()
        if run.session and run.how == wire.BY_ITSELF:
            self._send(run.number, wire.EXIT, wire.EXITED.pack(run.how, 0, 0))
            run.number = wire.NO_RUN

    def _discard_between(self, run: Run) -> None:
        """What a session's threads printed while nobody was listening belongs to no run."""
        for fd in (run.out, run.err, run.reply):
            self._relay(run, fd, _MOST_READ_AT_ONCE)
        run.answer.clear()

    def _end(self, run: Run) -> None:
        processes.end_tree(run.pid)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._forwarder:
                self._forwarder = 0
                self._fork_forwarder()
            run = self._runs.pop(pid, None)
            if run is not None:
                self._finish(run, status)

    def _finish(self, run: Run, status: int) -> None:
        for fd in (run.out, run.err, run.reply):
            self._relay(run, fd, max(run.most_output, _CHUNK))
            self._unwatch(fd)
        run.close()
        if self._sessions.get(run.session) is run:
            del self._sessions[run.session]
        if run is self._spare:
            self._spare = None
        left, swept_all = processes.end_leftovers({*self._runs, self._forwarder}, alone=not self._is_busy())
        if swept_all:
            self._spare = None
        if not run.number:
            return
        if not run.is_python and 0 < len(run.answer) <= _FOLDER_BYTES:
            self._send(run.number, wire.FOLDER, bytes(run.answer))
        code = os.waitstatus_to_exitcode(status)
        self._send(run.number, wire.EXIT, wire.EXITED.pack(run.how, code, left))

    def _send(self, number: int, kind: int, body: bytes) -> None:
        wire.write_all(self._outgoing, wire.frame(number, kind, body))


def _wake_up(number: int, frame: object) -> None:
    """Only so that the signal is delivered: the wake-up descriptor tells the loop."""


def main() -> None:
    warden = Warden(int(sys.argv[1]), int(sys.argv[2]))
    try:
        warden.serve()
    except (BrokenPipeError, ConnectionResetError):  # the host went away while we spoke
        return
    finally:
        if os.getpid() != 1:
            warden.leave()


if __name__ == "__main__":
    main()
