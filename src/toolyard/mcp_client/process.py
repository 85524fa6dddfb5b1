"""The process of a stdio server: started in its own session, watched, and ended with all its children.

A `ServerProcess` owns the process, its pipes and their watchers, and runs on the loop that created it.

- `close()` closes its stdin, waits, sends SIGTERM to the group, waits, and sends SIGKILL.
- When the process exits, the rest of its group is killed before the pid can be reused.
- When this process is killed, a `Watchdog` kills the group. To register the group first, the program starts behind
  a shell that waits for one line and then executes the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, cast

from toolyard.core.limits import KIB
from toolyard.mcp_client.errors import ServerUnavailable
from toolyard.mcp_client.stderr_tail import OutputTail
from toolyard.mcp_client.watchdog import Watchdog

_GATE = ("/bin/sh", "-c", 'read -r _ && exec "$@"', "sh")
_OPEN_THE_GATE = b"\n"
_STDERR_CHUNK_BYTES = 64 * KIB
_STDERR_CHUNKS = 4
"""A pipe holds at most this much."""
_EXIT_SECONDS = 1.0
"""From the end of its input until SIGTERM."""
_TERMINATE_SECONDS = 2.0
"""From SIGTERM until SIGKILL."""
_REAP_SECONDS = 2.0
"""Only a process that cannot be killed takes this long."""


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """What to start. `repr` shows neither arguments nor environment: both may contain secrets."""

    server: str
    command: Sequence[str] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    cwd: str | None = None

    def resolve_command(self) -> list[str]:
        """Returns the command with the full path of its program. Raises ServerUnavailable."""
        program, *arguments = self.command
        if "/" in program:
            path = os.path.join(self.cwd or os.curdir, program)
            found = os.path.abspath(path) if os.access(path, os.X_OK) and not os.path.isdir(path) else None
        else:
            found = shutil.which(program, path=self.env.get("PATH"))
        if found is None:
            raise ServerUnavailable(
                self.server,
                f"cannot be started: there is no program '{program}'",
                hint="Install it, or give its full path as `command`.",
            )
        return [found, *arguments]


class ServerProcess:
    """A running server. `stdin` and `stdout` are our ends, and non-blocking."""

    def __init__(
        self, program: ServerProgram, tail: OutputTail, watchdog: Watchdog, on_exit: Callable[[int], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._tail = tail
        self._watchdog = watchdog
        self._on_exit = on_exit
        self._exit_future = self._loop.create_future()
        command = program.resolve_command()
        try:
            self._process = subprocess.Popen(
                [*_GATE, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=dict(program.env),
                cwd=program.cwd,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise _start_error(program, error) from error
        self.pid = self._process.pid
        self.stdin, self.stdout, self._stderr = (
            cast("IO[bytes]", pipe).fileno()
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr)
        )
        try:
            watchdog.add_group(self.pid)
            self._watch()
        except OSError as error:
            self._process.kill()
            self._process.communicate()
            watchdog.remove_group(self.pid)
            raise _start_error(program, error) from error
        with contextlib.suppress(BrokenPipeError):  # it has exited already; the watcher reports it
            os.write(self.stdin, _OPEN_THE_GATE)

    @property
    def exit_code(self) -> int | None:
        """As in `subprocess`: negative for a signal."""
        return self._process.returncode

    async def close(self) -> None:
        """Ends the process and all its children. Every wait is bounded; cancelling the caller skips them."""
        try:
            self._close_stdin()
            if not await self._wait_for_exit(_EXIT_SECONDS):
                self.send_signal(signal.SIGTERM)
                await self._wait_for_exit(_TERMINATE_SECONDS)
        finally:
            self.send_signal(signal.SIGKILL)
        await self._wait_for_exit(_REAP_SECONDS)

    def send_signal(self, number: int) -> None:
        """Sends a signal to the whole group, unless the process has been reaped."""
        if not self._exit_future.done():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    async def _wait_for_exit(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._exit_future)
        return self._exit_future.done()

    def _watch(self) -> None:
        for descriptor in (self.stdin, self.stdout, self._stderr):
            os.set_blocking(descriptor, False)
        self._pidfd = os.pidfd_open(self.pid)
        self._loop.add_reader(self._pidfd, self._reap)
        self._loop.add_reader(self._stderr, self._read_stderr)

    def _read_stderr(self) -> bool:
        try:
            data = os.read(self._stderr, _STDERR_CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            self._tail.add_stderr(data)
        else:
            self._loop.remove_reader(self._stderr)
        return bool(data)

    def drain_stderr(self) -> None:
        """Reads what is in the pipe now, but no more: the server may print faster than we read."""
        for _ in range(_STDERR_CHUNKS):
            if not self._read_stderr():
                return

    def _reap(self) -> None:
        """Handles the exit. The process is still a zombie, so its group can be killed by number safely."""
        self.send_signal(signal.SIGKILL)
        self._watchdog.remove_group(self.pid)
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        code = self._process.wait()
        self.drain_stderr()
        self._exit_future.set_result(None)
        self._on_exit(code)
        self._loop.remove_reader(self._stderr)
        self._close_stdin()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _close_stdin(self) -> None:
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()


def _start_error(program: ServerProgram, error: OSError | ValueError) -> ServerUnavailable:
    """Returns the error of a failed start. Never quotes the exception: it may contain arguments."""
    if isinstance(error, OSError) and program.cwd and not os.path.isdir(program.cwd):
        why, hint = f"its folder {program.cwd} does not exist", "Create the folder, or change `cwd` in its entry."
    elif isinstance(error, OSError):
        why = os.strerror(error.errno or 0).lower()
        hint = "Run `toolyard doctor` to see what this machine lacks."
    else:
        why, hint = "its command or its environment holds a NUL character", "Correct its entry."
    return ServerUnavailable(program.server, f"cannot be started: {why}", hint=hint)
