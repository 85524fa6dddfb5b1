"""The process of a stdio server: started in a session of its own, watched, and ended with all that it started.

A `ServerProcess` owns the process, its pipes and what watches them. Everything happens on the loop it was made on.

- `close()` closes its stdin, waits, sends SIGTERM to the group, waits, sends SIGKILL.
- When the process ends by itself, what is left of its group is killed before its number can be used again.
- When this process is killed, a `Watchdog` kills the group. The program only begins once that is arranged, for which
  it is started behind a gate: a shell that waits for one line and then becomes the program.
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
"""A pipe holds no more than these."""
_EXIT_SECONDS = 1.0
"""From the end of its input until a server is sent SIGTERM."""
_TERMINATE_SECONDS = 2.0
"""From SIGTERM until SIGKILL."""
_REAP_SECONDS = 2.0
"""Only a process that cannot be killed runs this out."""


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """What to start. `repr` shows neither its arguments nor its environment: both may carry secrets."""

    server: str
    command: Sequence[str] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    cwd: str | None = None

    def resolve_command(self) -> list[str]:
        """The command with its program's full path."""
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
    """A running server. `stdin` and `stdout` are the host's ends, and do not block."""

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
        with contextlib.suppress(BrokenPipeError):  # it has gone already; the watch will say so
            os.write(self.stdin, _OPEN_THE_GATE)

    @property
    def exit_code(self) -> int | None:
        """As `subprocess` has it: negative for a signal."""
        return self._process.returncode

    async def close(self) -> None:
        """End it and all that it started. Every wait is bounded, and a caller's cancellation skips them."""
        try:
            self._close_stdin()
            if not await self._wait_for_exit(_EXIT_SECONDS):
                self.send_signal(signal.SIGTERM)
                await self._wait_for_exit(_TERMINATE_SECONDS)
        finally:
            self.send_signal(signal.SIGKILL)
        await self._wait_for_exit(_REAP_SECONDS)

    def send_signal(self, number: int) -> None:
        """To the whole group, while it is surely this one."""
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
        """Take what lies in the pipe now, and no more: it may be printed faster than it is read."""
        for _ in range(_STDERR_CHUNKS):
            if not self._read_stderr():
                return

    def _reap(self) -> None:
        """The process is a zombie: its group's number is still taken, so the rest of it can be killed by number."""
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
    """Never the error's own text: it may quote arguments."""
    if isinstance(error, OSError) and program.cwd and not os.path.isdir(program.cwd):
        why, hint = f"its folder {program.cwd} is not there", "Make the folder, or change `cwd` in its entry."
    elif isinstance(error, OSError):
        why = os.strerror(error.errno or 0).lower()
        hint = "`toolyard doctor` says what this machine lacks."
    else:
        why, hint = "its command or its environment holds a NUL character", "Correct its entry."
    return ServerUnavailable(program.server, f"cannot be started: {why}", hint=hint)
