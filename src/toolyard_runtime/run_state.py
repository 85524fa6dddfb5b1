"""The supervisor's state of one worker and, once it has a request, of its run."""

from __future__ import annotations

import os
import select

from toolyard_runtime import processes, protocol, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from toolyard_runtime.change_recorder import ChangeRecorder
    from toolyard_runtime.messages import Request

_REQUEST_WRITE_MS = 1_000
"""How long a worker may take to read a request: no other run is served meanwhile."""
_SIGCONT = 18


class WorkerRun:
    """One worker process, its pipes and its current run."""

    def __init__(self, pid: int, fds: list[int], *, is_shell: bool) -> None:
        self.pid = pid
        self.requests, self.reply, self.out, self.err = fds
        self.is_shell = is_shell
        """Whether it is a waiting shell, which accepts one command and nothing else."""
        self.number = protocol.NO_RUN
        self.session = ""
        self.is_python = False
        self.printed_bytes = 0
        self.output_limit = 0
        self.answer = bytearray()
        self.end_kind = protocol.BY_ITSELF
        self.is_terminating = False
        """Whether it was sent SIGTERM: processes that it started may still clean up after its first process has
        ended."""
        self.status = 0
        """The wait status of the first process, while the supervisor waits for the others."""
        self.is_fresh = True
        """Whether it has had no request yet: no agent code has run in it."""
        self.recorder: ChangeRecorder | None = None
        self.is_recorded = False
        """Whether the host was informed that all its changes are recorded."""

    def start_run(self, number: int, request: Request) -> None:
        """Sends a request to the worker."""
        self.number = number
        self.session = request["session"]
        self.is_python = request["what"] == "python"
        self.printed_bytes, self.output_limit = 0, request["output_bytes"]
        self.end_kind = protocol.BY_ITSELF
        self.is_fresh = False
        self.answer.clear()
        if self.is_shell:
            data = shell.encode_command(request["folder"], request["code"])
        else:
            body = protocol.pack_values({**request})
            data = protocol.LENGTH_PREFIX.pack(len(body)) + body
        try:
            os.kill(self.pid, _SIGCONT)  # another run may have stopped it while it waited
            self._write_request(data)
        except (BrokenPipeError, ProcessLookupError):
            return  # it has just died; the supervisor reports its end as usual

    def send_values(self, values: dict[str, Any]) -> None:
        """Sends values that are not a run, such as the setup."""
        body = protocol.pack_values(values)
        self._write_request(protocol.LENGTH_PREFIX.pack(len(body)) + body)

    def _write_request(self, data: bytes) -> None:
        """Writes a request, which may exceed the pipe's capacity; kills a worker that does not read it."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self.requests, view) :]
            except BlockingIOError:
                waiting = select.poll()
                waiting.register(self.requests, select.POLLOUT)
                if not waiting.poll(_REQUEST_WRITE_MS):
                    processes.kill_tree(self.pid)
                    return

    def close(self) -> None:
        for fd in (self.requests, self.reply, self.out, self.err):
            os.close(fd)
