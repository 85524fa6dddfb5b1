"""The runs whose changes are recorded, from receiving the listener of a worker to the last batch of paths.

A listener outlives its run as long as a process that was started in it exists; it is answered until then.
"""

from __future__ import annotations

import select
from time import monotonic

from toolyard_runtime import protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from toolyard_runtime.change_recorder import ChangeRecorder
    from toolyard_runtime.messages import Recording, Request, Setup
    from toolyard_runtime.run_state import WorkerRun

_MS = 1_000
_NEVER = float("inf")
_MAX_ANSWERS_IN_A_ROW, _FOLLOW_UP_MS = 100, 1
"""Calls of one listener that are answered before other events, and how closely they have to follow each other."""


class RecordedRuns:
    """Answers the listeners of all recorded runs and sends their changes to the host."""

    def __init__(
        self, poll: select.poll, send: Callable[[int, int, bytes], None], urgent: tuple[int, ...] = ()
    ) -> None:
        """Adds descriptors to the supervisor's `poll`; `send` sends a frame to the host.

        The descriptors in `urgent`, the supervisor's own, never wait for a run that changes files continuously.
        """
        self._poll, self._send = poll, send
        self._recording: Recording | None = None
        self._expected_listeners: dict[int, WorkerRun] = {}  # by the socket through which the listener arrives
        self._runs: dict[int, WorkerRun] = {}  # by listener
        self._ended: dict[int, ChangeRecorder] = {}
        self._due_at = _NEVER
        self._quick_poll = select.poll()
        for fd in urgent:
            self._quick_poll.register(fd, select.POLLIN)

    @staticmethod
    def preload_modules(setup: Setup) -> None:
        """Imports the modules that workers need, which are forked from this process, if runs can be recorded."""
        if "recording" in setup:
            from toolyard_runtime import change_listener, change_recorder

            del change_listener, change_recorder

    @property
    def is_due(self) -> bool:
        """Whether a batch of changes should be sent now."""
        return monotonic() >= self._due_at

    def poll_timeout_ms(self, default_ms: int | None) -> int | None:
        """Returns how long the supervisor may wait: `default_ms`, or less if a batch is due."""
        if self._due_at == _NEVER:
            return default_ms
        left = max(int((self._due_at - monotonic()) * _MS) + 1, 0)
        return left if default_ms is None else min(left, default_ms)

    def begin_run(self, run: WorkerRun, number: int, request: Request, setup: Setup | None) -> None:
        """Prepares recording before a run is sent to its worker. In a session the first request decides for all.

        A listener is accepted only from a worker that has run no agent code yet: others could send a false one.
        """
        if setup is None or "recording" not in setup or not request.get("records"):
            return
        self._recording = setup["recording"]
        if run.recorder is not None:
            self._send_coverage(run, number)
        elif run.is_fresh:
            self._expected_listeners[run.requests] = run
            self._poll.register(run.requests, select.POLLIN)

    def handle_event(self, fd: int, event: int) -> bool:
        """Handles an event. Returns whether it belonged to a recorded run."""
        if fd in self._runs:
            run = self._runs[fd]
            if run.recorder is not None and event & select.POLLIN:
                self._answer_notifications(run.recorder)
                self._schedule(run)
            elif event & (select.POLLHUP | select.POLLERR):
                self._unwatch(fd)  # no process is left that could change anything
                del self._runs[fd]
            return True
        if fd in self._ended:
            if event & select.POLLIN:
                self._ended[fd].answer_notification()
            else:
                self._unwatch(fd)
                self._ended.pop(fd).close()
            return True
        if fd in self._expected_listeners:
            self._accept_listener(fd)
            return True
        return False

    def _schedule(self, run: WorkerRun) -> None:
        """Schedules the next batch of a run. An idle session sends its changes with its next run."""
        if run.recorder is not None and run.number:
            is_given_up = run.is_recorded and not run.recorder.is_complete
            self._due_at = min(self._due_at, monotonic() + (0.0 if is_given_up else run.recorder.seconds_until_due))

    def _answer_notifications(self, recorder: ChangeRecorder) -> None:
        """Answers calls of one listener while they follow each other closely and nothing else happens."""
        recorder.answer_notification()
        for _ in range(_MAX_ANSWERS_IN_A_ROW):
            events = self._quick_poll.poll(_FOLLOW_UP_MS)
            if len(events) != 1 or events[0] != (recorder.listener, select.POLLIN):
                return
            recorder.answer_notification()

    def send_due_changes(self) -> None:
        """Sends the changes of all runs if a batch is due."""
        if not self.is_due:
            return
        self._due_at = _NEVER
        for run in tuple(self._runs.values()):
            self.send_changes(run)
            self._schedule(run)

    def send_changes(self, run: WorkerRun, *, is_over: bool = False) -> None:
        """Sends the new changes of a run to the host."""
        if run.recorder is None or not run.number:
            return
        for body in run.recorder.pop_frame_bodies(is_final=is_over):
            self._send(run.number, protocol.CHANGES, body)
        if run.is_recorded and not run.recorder.is_complete:
            self._send_coverage(run, run.number)

    def end_run(self, run: WorkerRun) -> None:
        """Ends recording for a run whose first process is gone."""
        if self._expected_listeners.pop(run.requests, None) is not None:
            self._poll.unregister(run.requests)
        self.send_changes(run, is_over=True)
        recorder, run.recorder = run.recorder, None
        if recorder is None:
            return
        if self._runs.pop(recorder.listener, None) is not None:
            self._ended[recorder.listener] = recorder
        else:
            recorder.close()

    def _accept_listener(self, fd: int) -> None:
        from toolyard_runtime import change_listener
        from toolyard_runtime.change_recorder import ChangeRecorder

        run = self._expected_listeners.pop(fd)
        self._poll.unregister(fd)
        listener = change_listener.receive_listener(fd)
        if listener < 0 or self._recording is None:
            return
        run.recorder = ChangeRecorder(listener, self._recording)
        self._runs[listener] = run
        for poll in (self._poll, self._quick_poll):
            poll.register(listener, select.POLLIN)
        self._send_coverage(run, run.number)

    def _unwatch(self, listener: int) -> None:
        for poll in (self._poll, self._quick_poll):
            poll.unregister(listener)

    def _send_coverage(self, run: WorkerRun, number: int) -> None:
        is_complete = run.recorder is not None and run.recorder.is_complete
        run.is_recorded = is_complete
        self._send(number, protocol.RECORDED, protocol.COMPLETE if is_complete else protocol.INCOMPLETE)
