"""One worker and, when it has been given one, the run it is busy with: the warden's notes about it."""

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
"""How long a worker may leave a request lying: nobody else is served meanwhile."""
_SIGCONT = 18


class WorkerRun:
    def __init__(self, pid: int, fds: list[int], *, is_shell: bool) -> None:
        self.pid = pid
        self.requests, self.reply, self.out, self.err = fds
        self.is_shell = is_shell
        """A waiting shell; it takes a command and nothing else."""
        self.number = protocol.NO_RUN
        self.session = ""
        self.is_python = False
        self.printed_bytes = 0
        self.output_limit = 0
        self.answer = bytearray()
        self.end_kind = protocol.BY_ITSELF
        self.is_terminating = False
        """It was sent SIGTERM: what it started may still be cleaning up when its first process has ended."""
        self.status = 0
        """How that process ended, while the others are waited for."""
        self.is_fresh = True
        """No request was given to it yet: nothing of an agent's has run in it."""
        self.recorder: ChangeRecorder | None = None
        self.is_recorded = False
        """Whether the host was told that all it changes is recorded."""

    def start_run(self, number: int, request: Request) -> None:
        self.number = number
        self.session = request["session"]
        self.is_python = request["what"] == "python"
        self.printed_bytes, self.output_limit = 0, request["output_bytes"]
        self.end_kind = protocol.BY_ITSELF
        self.is_fresh = False
        self.answer.clear()
        if self.is_shell:
            said = shell.encode_command(request["folder"], request["code"])
        else:
            body = protocol.pack_values({**request})
            said = protocol.LENGTH_PREFIX.pack(len(body)) + body
        try:
            os.kill(self.pid, _SIGCONT)  # another run may have stopped it while it waited
            self._write_request(said)
        except (BrokenPipeError, ProcessLookupError):
            return  # it died just now; its end is told like any other

    def send_values(self, values: dict[str, Any]) -> None:
        """Send something to the worker that is no run."""
        body = protocol.pack_values(values)
        self._write_request(protocol.LENGTH_PREFIX.pack(len(body)) + body)

    def _write_request(self, data: bytes) -> None:
        """Write a request, of which a pipe holds only a part; end a worker that does not take the rest."""
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
