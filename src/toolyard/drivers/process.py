"""The process of one run: its output lines, the tail of its stderr and its exit.

`CliProcess` owns the control socket of a reaper (see `reaper.py`) and the two pipes. `close()` ends all remaining
processes and waits for them; so does the end of our own process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from toolyard.core.errors import SystemFault
from toolyard.core.limits import MIB
from toolyard.drivers.orphan_cleanup import RUN_VARIABLE, kill_run_processes

MAX_LINE = 16 * MIB
_CHUNK = 1 << 16
_TAIL_BYTES = 1 << 16
"""Bytes of stderr that are kept; the end of them can be shown."""
_SHOWN_TAIL_CHARS = 1 << 13
_GRACE_SECONDS = 1.0
"""Between SIGTERM and SIGKILL."""
_REAPER_SECONDS = 10.0
"""For the reaper to end all processes; its own limit is half of that."""
_SILENCE_SECONDS = 1.0
_MAX_BYTES_AFTER_EXIT = 4 * MIB
"""Output after the exit that was still in the pipe. More can only come from a process that inherited it."""
_REAPER_PATH = os.path.join(os.path.dirname(__file__), "reaper.py")


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """What to start: the command, its working folder and variables, and the folder to remove afterwards."""

    run: str
    command: Sequence[str]
    workdir: str
    variables: Mapping[str, str] = field(repr=False)
    folder: str = ""
    stdin_path: str = os.devnull
    """The file that becomes its stdin."""
    lock_fd: int = -1
    """Lock that keeps others from removing the folder as a leftover; the reaper inherits it."""


class CliProcess:
    """A running CLI and its reaper."""

    def __init__(self, reaper: asyncio.subprocess.Process, control_socket: socket.socket, spec: ProcessSpec) -> None:
        self._reaper = reaper
        self._output = cast("asyncio.StreamReader", reaper.stdout)  # `start` passes pipes
        self._errors = cast("asyncio.StreamReader", reaper.stderr)
        self._control_socket = control_socket
        self._spec = spec
        self._tail = bytearray()
        self._stderr_task = asyncio.create_task(self._drain_stderr())
        self._exit_task = asyncio.create_task(self._read_exit_report())
        self._stop_task: asyncio.Task[None] | None = None
        self.dropped_lines = 0
        """Lines that were too long and were dropped."""

    @classmethod
    async def start(cls, spec: ProcessSpec) -> CliProcess:
        """Starts the reaper and the CLI. Raises SystemFault if the reaper cannot be started."""
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise _start_error(error) from error
        try:
            reaper = await asyncio.create_subprocess_exec(
                *(
                    sys.executable,
                    "-I",
                    "-S",
                    _REAPER_PATH,
                    str(theirs.fileno()),
                    spec.folder,
                    spec.stdin_path,
                    *spec.command,
                ),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=spec.workdir,
                env={**spec.variables, RUN_VARIABLE: spec.run},
                start_new_session=True,
                pass_fds=(theirs.fileno(), *((spec.lock_fd,) if spec.lock_fd >= 0 else ())),
            )
        except BaseException as error:
            ours.close()
            if isinstance(error, OSError):
                raise _start_error(error) from error
            raise
        finally:
            theirs.close()
        ours.settimeout(0)
        return cls(reaper, ours, spec)

    async def lines(self) -> AsyncIterator[bytes]:
        """Yields output lines until the CLI and all its children have closed their output or ended."""
        buffer = bytearray()
        is_skipping = False
        async for chunk in self._read_chunks():
            *whole, rest = chunk.split(b"\n")
            for piece in whole:
                if not is_skipping:
                    yield bytes(buffer + piece)
                is_skipping = False
                buffer.clear()
            if is_skipping:
                continue
            buffer += rest
            if len(buffer) > MAX_LINE:
                self.dropped_lines += 1
                is_skipping = True
                buffer.clear()
        if buffer:
            yield bytes(buffer)

    async def _read_chunks(self) -> AsyncIterator[bytes]:
        """Yields output. Does not wait for end of file after the exit: a process could hold the pipe open."""
        afterwards = 0
        while afterwards <= _MAX_BYTES_AFTER_EXIT:
            reading = asyncio.ensure_future(self._output.read(_CHUNK))
            try:
                await asyncio.wait({reading, self._exit_task}, return_when=asyncio.FIRST_COMPLETED)
                if self._exit_task.done():
                    await asyncio.wait({reading}, timeout=_SILENCE_SECONDS)
                chunk = reading.result() if reading.done() else b""
            finally:
                reading.cancel()
            if not chunk:
                return
            if self._exit_task.done():
                afterwards += len(chunk)
            yield chunk

    async def wait_for_exit(self) -> int | None:
        """Waits for the CLI and returns its exit code: negative for a signal, None if unknown.

        Raises SystemFault if the program could not be started.
        """
        report = await asyncio.shield(self._exit_task)
        word, _, rest = report.partition(" ")
        if word == "none":
            raise SystemFault(f"{self._spec.command[0]} could not be started: {rest}.")
        return int(rest) if word == "exit" else None

    def stop(self) -> None:
        """Sends SIGTERM, and SIGKILL a moment later. Returns immediately."""
        if self._stop_task is None:
            self._stop_task = asyncio.create_task(self._stop())

    def stderr_tail(self, secrets: Iterable[str] = ()) -> str:
        """Returns the end of its stderr, with secrets masked."""
        text = self._tail.decode("utf-8", "replace")
        for secret in secrets:
            text = text.replace(secret, "***")
        return text[-_SHOWN_TAIL_CHARS:].strip()  # the beginning may contain half of a secret

    async def close(self) -> None:
        """Ends all remaining processes and waits for them."""
        if self._stop_task is not None:
            self._stop_task.cancel()
        with contextlib.suppress(OSError):
            self._control_socket.shutdown(socket.SHUT_WR)  # the reaper ends all processes and reports
        try:
            async with asyncio.timeout(_REAPER_SECONDS):
                await self._reaper.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._reaper.kill()
            await self._reaper.wait()
        await self._exit_task
        for task in (self._stderr_task, self._stop_task):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        self._control_socket.close()

    async def _stop(self) -> None:
        with contextlib.suppress(OSError):
            self._control_socket.send(b"T")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_SECONDS):
                await asyncio.shield(self._exit_task)
        with contextlib.suppress(OSError):
            self._control_socket.shutdown(socket.SHUT_WR)
        # The reaper itself hangs: kill it.
        await asyncio.wait({self._exit_task}, timeout=_REAPER_SECONDS)
        if not self._exit_task.done():
            with contextlib.suppress(ProcessLookupError):
                self._reaper.kill()

    async def _read_exit_report(self) -> str:
        loop = asyncio.get_running_loop()
        report = b""
        with contextlib.suppress(OSError):
            while not report.endswith(b"\n") and (more := await loop.sock_recv(self._control_socket, 1024)):
                report += more
        if not report:
            # The reaper died early. A process that holds the output open would keep us waiting forever.
            await asyncio.to_thread(kill_run_processes, self._spec.run, self._reaper.pid)
        return report.decode("utf-8", "replace").strip()

    async def _drain_stderr(self) -> None:
        while chunk := await self._errors.read(_CHUNK):
            self._tail += chunk
            del self._tail[:-_TAIL_BYTES]


def _start_error(error: OSError) -> SystemFault:
    why = error.strerror or str(error)
    return SystemFault(f"No process could be started for the run: {why}.", retryable=True)
