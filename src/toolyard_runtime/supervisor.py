"""The supervisor: the first process of a sandbox. Starts runs, relays their output, ends their leftover processes.

Contract: it exchanges `protocol` frames on two descriptors (which may be one socket). The first frame sets it up,
including its restrictions; it answers READY and then serves runs until the host's end of the stream closes, for any
reason. Then it exits, and the kernel ends every process of its namespace; without a namespace of its own it first
kills its descendants. It is single-threaded, imports very little, and never runs agent code in itself: workers
(`worker`) do that, and one is always forked ahead of time.
"""

from __future__ import annotations

import os
import select
import sys
from time import monotonic, sleep

from toolyard_runtime import hardening, processes, protocol, shell, worker, worker_factory
from toolyard_runtime.recorded_runs import RecordedRuns
from toolyard_runtime.run_state import WorkerRun
from toolyard_runtime.worker_factory import COMMAND, PYTHON

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal

    from toolyard_runtime.messages import Request, Setup

    First = tuple[int, list[int]]
else:  # `signal` itself would import more than a cold start can afford
    import _signal

_CHUNK = 1 << 16
_MOST_READ_AT_ONCE = 16 * _CHUNK  # so that one run with much output does not delay the others
_SPARE_AFTER_MS, _PRELOAD_AFTER_MS = 3, 5
_RESTRICTIONS_WAIT_MS = 5_000
_FOLDER_BYTES, _ANSWER_BYTES = 8192, 48 * 1024 * 1024
_REAPING_SECONDS = 0.05  # a run may create orphans faster than they can be reaped, and the host's frames must be read
_MAX_REAP_WAITS, _REAP_WAIT_SECONDS = 1_000, 0.002


class Supervisor:
    """Serves the runs of one sandbox over a pair of descriptors."""

    def __init__(self, incoming: int, outgoing: int, first: First | None = None) -> None:
        self._first, self._incoming, self._outgoing = first, incoming, outgoing
        self._frames = protocol.FrameParser()
        self._poll = select.poll()
        self._runs: dict[int, WorkerRun] = {}  # by pid
        self._lingering: list[WorkerRun] = []  # ended, while the processes that they started clean up
        self._by_fd: dict[int, WorkerRun] = {}
        self._sessions: dict[str, WorkerRun] = {}
        self._spares: dict[str, WorkerRun] = {}  # by kind
        self._last_kind = PYTHON
        self._setup: Setup | None = None
        self._to_import: list[str] = list(worker.FIRST_STEPS)
        self._forwarder = 0
        self._wakeup_read, self._wakeup_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        _signal.set_wakeup_fd(self._wakeup_write, warn_on_full_buffer=False)
        _signal.signal(_signal.SIGCHLD, processes.on_child_exit)
        # A run may send SIGINT. The kernel does not deliver signals without a handler to a namespace's first process,
        # but Python installs a handler for this one.
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
        for fd in (incoming, self._wakeup_read):
            self._poll.register(fd, select.POLLIN)
        self._recorded_runs = RecordedRuns(self._poll, self._send, (incoming, self._wakeup_read))

    def serve(self) -> None:
        """Serves runs until the host disconnects."""
        while True:
            events = self._poll.poll(self._recorded_runs.poll_timeout_ms(self._poll_timeout_ms()))
            if not events and not self._recorded_runs.is_due:
                self._use_idle_time()
            for fd, event in events:
                if fd == self._incoming:
                    data = os.read(fd, _CHUNK)
                    if not data:
                        return
                    for number, kind, body in self._frames.feed(data):
                        self._handle_frame(number, kind, body)
                elif fd == self._wakeup_read:
                    os.read(fd, _CHUNK)
                    self._reap()
                    while self._lingering and not self._leftover_children():
                        done = self._lingering.pop()
                        self._finish(done, done.status)
                    self._refill(self._last_kind)  # another run of the same kind often follows immediately
                elif (
                    not self._recorded_runs.handle_event(fd, event) and fd in self._by_fd
                ):  # an earlier event of this round may have closed it
                    self._relay(self._by_fd[fd], fd, _MOST_READ_AT_ONCE)
            self._recorded_runs.send_due_changes()

    def end_all_runs(self) -> None:
        """Ends every active run, for a supervisor without a namespace that would end them."""
        for run in self._runs.values():
            processes.kill_tree(run.pid)
        processes.kill_leftovers(set(), alone=True)
        folder = self._setup.get("scratch") if self._setup is not None else None
        if folder:
            from toolyard_runtime import scratch

            scratch.remove(folder)

    def _handle_frame(self, number: int, kind: int, body: bytes) -> None:
        if kind == protocol.SETUP:
            self._set_up(protocol.unpack_values(body))  # type: ignore[arg-type]
        elif kind == protocol.RUN:
            self._start(number, protocol.unpack_values(body))  # type: ignore[arg-type]
        elif kind in {protocol.KILL, protocol.TERMINATE}:
            for run in (*self._runs.values(), *self._lingering):
                if run.number == number:
                    self._stop(run, at_once=kind == protocol.KILL)
                    break
        elif kind == protocol.DROP:
            run = self._sessions.pop(body.decode(), None)
            if run is not None:
                self._end(run)

    def _set_up(self, setup: Setup) -> None:
        self._setup = setup
        try:
            if os.getpid() != 1:
                hardening.become_subreaper()
            worker.enter_file_system(setup)
            first = self._set_up_first_worker(setup)
            if not setup["walls_in_worker"]:
                hardening.apply_restrictions(setup["landlock"], setup["landlock_rules"], setup["seccomp"])
            hardening.set_dumpable(enabled=False)
            worker.apply_environment(setup)  # workers are forked from this process and inherit it
            self._recorded_runs.preload_modules(setup)
        except OSError as error:
            self._send(protocol.NO_RUN, protocol.BROKEN, f"{error.filename or ''}: {error.strerror}".encode())
            raise SystemExit(1) from None
        if first is not None:
            self._wait_for_restrictions(first)
        self._fork_forwarder()
        self._send(protocol.NO_RUN, protocol.READY, str(protocol.PROTOCOL).encode())

    def _set_up_first_worker(self, setup: Setup) -> WorkerRun | None:
        """Sends the setup to the worker that was forked first; it applies its restrictions while we apply ours."""
        if self._first is None:
            return None
        (pid, ours), self._first = self._first, None
        run = self._watch_worker(WorkerRun(pid, ours, is_shell=False))
        run.send_values({**setup})
        return run

    def _wait_for_restrictions(self, run: WorkerRun) -> None:
        waiting = select.poll()
        waiting.register(run.reply, select.POLLIN)
        if waiting.poll(_RESTRICTIONS_WAIT_MS) and os.read(run.reply, 1):
            self._spares[PYTHON] = run
        else:
            processes.kill_tree(run.pid)  # another one is started when it is needed

    def _fork_forwarder(self) -> None:
        """Starts the proxy forwarder, or restarts it: code inside may have killed it."""
        if self._setup is not None and self._setup["forward"] and not self._forwarder:
            self._forwarder = worker.fork_forwarder(self._setup)

    def _start(self, number: int, request: Request) -> None:
        run = self._sessions.get(request["session"]) if request["session"] else None
        if run is None:
            run = self._worker_for(request)
            if run is None:
                self._refuse(number, b"No process could be started: the sandbox is full.\n")
                if not self._is_busy():  # no run will end and free a slot: the host starts another sandbox
                    raise SystemExit(1)
                return
            if request["session"]:
                self._sessions[request["session"]] = run
        else:  # it is idle: the host allows one run at a time per session
            self._discard_idle_output(run)
        if self._forwarder:
            os.kill(self._forwarder, _signal.SIGCONT)  # another run may have stopped it
        self._recorded_runs.begin_run(run, number, request, self._setup)
        run.start_run(number, request)

    def _worker_for(self, request: Request) -> WorkerRun | None:
        for_shell = request["what"] == "command" and shell.fits_waiting_shell(request["folder"], request["code"])
        self._last_kind = COMMAND if for_shell and self._can_prestart_shell() else PYTHON
        run = self._spares.pop(self._last_kind, None) or self._new_worker(self._last_kind)
        if run is None:
            self._reap_until_free()
        return run or self._new_worker(self._last_kind)

    def _reap_until_free(self) -> None:
        """Reaps dead processes, which count as processes too. While nothing runs, waits for all of them."""
        for _ in range(_MAX_REAP_WAITS):
            self._reap()
            if self._is_busy() or not self._leftover_children():
                return
            sleep(_REAP_WAIT_SECONDS)

    def _refuse(self, number: int, why: bytes) -> None:
        self._send(number, protocol.ERR, why)
        self._send(number, protocol.EXIT, protocol.EXIT_STATUS.pack(protocol.BY_ITSELF, 1, 0))

    def _poll_timeout_ms(self) -> int | None:
        """Returns how long to wait for events before idle time is used."""
        if self._setup is None:
            return None
        if self._missing_spares():
            return _SPARE_AFTER_MS
        return _PRELOAD_AFTER_MS if self._to_import and not self._is_busy() else None

    def _missing_spares(self) -> list[str]:
        wanted = (PYTHON, COMMAND) if self._can_prestart_shell() else (PYTHON,)
        return [kind for kind in wanted if kind not in self._spares]

    def _can_prestart_shell(self) -> bool:
        """Whether bash can be started ahead. With restrictions per worker, only a worker can start it."""
        setup = self._setup  # recorded runs need a worker as well
        return os.getpid() == 1 and setup is not None and not setup["walls_in_worker"] and "recording" not in setup

    def _refill(self, kind: str) -> None:
        if kind not in self._spares and (run := self._new_worker(kind)) is not None:
            self._spares[kind] = run

    def _use_idle_time(self) -> None:
        """Does one small step of preparation: a request that arrives meanwhile has to wait for it."""
        missing = self._missing_spares()
        if missing:
            self._refill(missing[0])
            return
        self._to_import += worker.preload(self._to_import.pop(0))
        if not self._to_import:
            processes.kill_tree(self._spares.pop(PYTHON).pid)  # it lacks the modules that were imported since

    def _is_busy(self, beside: WorkerRun | None = None) -> bool:
        runs = (*self._runs.values(), *self._lingering)
        return any(run is not beside and (run.number or run.session) for run in runs)

    def _new_worker(self, kind: str) -> WorkerRun | None:
        """Returns a new worker of this kind that waits for its request; None if no process can be started."""
        if self._setup is None:
            return None
        run = worker_factory.start_worker(kind, self._setup, is_alone=self._is_alone)
        return None if run is None else self._watch_worker(run)

    def _is_alone(self) -> bool:
        """Whether no run is active: there are only waiting workers and idle sessions.

        A session can pretend to be idle. It then stops its own sandbox, which the host discards and replaces.
        """
        waiting = {run.pid for run in self._spares.values()}
        others = [run for run in self._runs.values() if run.pid not in waiting]
        is_idle = all(run.session and not run.number and processes.is_idle(run.pid) for run in others)
        return is_idle and not self._leftover_children()

    def _leftover_children(self) -> set[int]:
        """Returns children that the supervisor did not start: processes that runs left behind."""
        return processes.child_pids() - {*self._runs, self._forwarder}

    def _watch_worker(self, run: WorkerRun) -> WorkerRun:
        self._runs[run.pid] = run
        for fd in (run.reply, run.out, run.err):
            os.set_blocking(fd, False)
            self._by_fd[fd] = run
            self._poll.register(fd, select.POLLIN)
        return run

    def _relay(self, run: WorkerRun, fd: int, most: int) -> None:
        """Forwards the available output without waiting for more."""
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
                self._collect_answer(run, data)
            elif run.number and run.end_kind != protocol.TOO_MUCH_OUTPUT:
                self._relay_output(run, protocol.OUT if fd == run.out else protocol.ERR, data)

    def _unwatch(self, fd: int) -> None:
        if self._by_fd.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def _relay_output(self, run: WorkerRun, kind: int, data: bytes) -> None:
        room, run.printed_bytes = run.output_limit - run.printed_bytes, run.printed_bytes + len(data)
        self._send(run.number, kind, data[:room])
        if len(data) > room:
            run.end_kind = protocol.TOO_MUCH_OUTPUT
            self._end(run)

    def _collect_answer(self, run: WorkerRun, data: bytes) -> None:
        if not run.number:
            return  # no run is active
        if len(run.answer) + len(data) > _ANSWER_BYTES:
            self._end(run)
            return
        run.answer += data
        if not run.is_python or len(run.answer) < protocol.LENGTH_PREFIX.size:
            return
        (length,) = protocol.LENGTH_PREFIX.unpack_from(run.answer)
        if len(run.answer) - protocol.LENGTH_PREFIX.size < length:
            return
        for fd in (run.out, run.err):
            self._relay(run, fd, run.output_limit)
        self._send(run.number, protocol.VALUE, bytes(run.answer[protocol.LENGTH_PREFIX.size :]))
        run.answer.clear()
        if run.end_kind == protocol.BY_ITSELF and (run.session or self._end_if_clean(run)):
            self._recorded_runs.send_changes(run, is_over=True)
            self._send(run.number, protocol.EXIT, protocol.EXIT_STATUS.pack(run.end_kind, 0, 0))
            run.number = protocol.NO_RUN

    def _end_if_clean(self, run: WorkerRun) -> bool:
        """Ends a run that has answered and left no processes, without waiting until its memory is freed."""
        if processes.has_children(run.pid) or self._leftover_children():
            return False
        os.kill(run.pid, processes.SIGKILL)
        return True

    def _discard_idle_output(self, run: WorkerRun) -> None:
        """Discards what a session's threads printed between runs: it belongs to no run."""
        for fd in (run.out, run.err, run.reply):
            self._relay(run, fd, _MOST_READ_AT_ONCE)
        run.answer.clear()

    def _stop(self, run: WorkerRun, *, at_once: bool) -> None:
        run.end_kind, run.is_terminating = protocol.KILLED, not at_once
        if not at_once:
            processes.terminate_tree(run.pid)
        elif run in self._lingering:
            self._lingering.remove(run)
            self._finish(run, run.status)
        else:
            self._end(run)

    def _end(self, run: WorkerRun) -> None:
        if os.getpid() == 1 and not self._is_busy(beside=run):
            os.kill(-1, processes.SIGKILL)  # a signal to all processes leaves no time to fork
            self._spares.clear()
        else:
            processes.kill_tree(run.pid)

    def _reap(self) -> None:
        until = monotonic() + _REAPING_SECONDS
        while monotonic() < until:
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
            if run is not None and run.is_terminating and self._leftover_children():
                run.status = status
                self._lingering.append(run)
            elif run is not None:
                self._finish(run, status)
        try:
            os.write(self._wakeup_write, b"\0")  # continue after other pending events
        except BlockingIOError:
            return  # enough wake-ups are pending

    def _finish(self, run: WorkerRun, status: int) -> None:
        for fd in (run.out, run.err, run.reply):
            self._relay(run, fd, max(run.output_limit, _CHUNK))
            self._unwatch(fd)
        run.close()
        if self._sessions.get(run.session) is run:
            del self._sessions[run.session]
        self._spares = {kind: spare for kind, spare in self._spares.items() if spare is not run}
        alone = not self._is_busy()
        if alone and os.getpid() == 1 and self._leftover_children():
            os.kill(-1, processes.SIGKILL)  # before counting them, which takes long while they fork
        left, swept_all = processes.kill_leftovers({*self._runs, self._forwarder}, alone=alone)
        if swept_all:
            self._spares.clear()
        self._recorded_runs.end_run(run)  # now no process is left that could change anything
        if not run.number:
            return
        if not run.is_python and 0 < len(run.answer) <= _FOLDER_BYTES:
            self._send(run.number, protocol.FOLDER, bytes(run.answer))
        code = os.waitstatus_to_exitcode(status)
        self._send(run.number, protocol.EXIT, protocol.EXIT_STATUS.pack(run.end_kind, code, left))

    def _send(self, number: int, kind: int, body: bytes) -> None:
        protocol.write_all(self._outgoing, protocol.frame(number, kind, body))


def main(first: First | None = None) -> None:
    """Serves the descriptors that the command line names."""
    supervisor = Supervisor(int(sys.argv[1]), int(sys.argv[2]), first)
    try:
        supervisor.serve()
    except (BrokenPipeError, ConnectionResetError):  # the host disconnected while we were writing
        return
    finally:
        if os.getpid() != 1:
            supervisor.end_all_runs()


if __name__ == "__main__":
    main()
