"""Commands that run in the background, each with a thread that collects its output.

`BackgroundCommands` owns them: `close()` ends every one. Output is handed out once; if it is not read in time the
oldest part is dropped, and the next answer says so.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from toolyard.core.closeable import Closeable
from toolyard.core.errors import ToolError, ToolyardError
from toolyard.core.limits import MIB
from toolyard.sandbox.spec import RunEnding, RunRequest, RunResult, Sandbox, Stream

_MAX_RUNNING = 32
_MAX_ENDED = 64  # ended commands whose output can still be read
_MAX_BUFFERED_BYTES = 1 * MIB
_UNLIMITED_BYTES = 1 << 40
_END_SECONDS = 5.0
_COMMAND_CHARS = 60


@dataclass(frozen=True, slots=True)
class OutputUpdate:
    """What a background command printed since the last read, and how it ended."""

    output: dict[Stream, bytes]
    dropped: int
    outcome: RunResult | None
    """None while it runs."""


@dataclass(slots=True, eq=False)
class BackgroundCommand:
    """One command in the background, with the output that was not read yet."""

    id: str
    command: str
    session: str = ""
    """The session that started it, which gets the notice of its end."""
    end_reported: bool = False
    cancelled: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    outcome: RunResult | None = None
    _buffers: dict[Stream, bytearray] = field(default_factory=lambda: {stream: bytearray() for stream in Stream})
    _dropped: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def append(self, stream: Stream, data: bytes) -> None:
        """Adds output and drops the oldest part of it if there is too much."""
        with self._lock:
            buffer = self._buffers[stream]
            buffer += data
            if len(buffer) > _MAX_BUFFERED_BYTES:
                self._dropped += len(buffer) - _MAX_BUFFERED_BYTES
                del buffer[: len(buffer) - _MAX_BUFFERED_BYTES]

    def pop_output(self) -> OutputUpdate:
        """Returns and clears the output since the last call."""
        with self._lock:
            outcome = self.outcome
            output = {stream: bytes(buffer) for stream, buffer in self._buffers.items()}
            for buffer in self._buffers.values():
                buffer.clear()
            dropped, self._dropped = self._dropped, 0
        return OutputUpdate(output, dropped, outcome)

    def restore_output(self, update: OutputUpdate) -> None:
        """Puts output back for the next read: this answer did not reach the client."""
        with self._lock:
            for stream, output in update.output.items():
                self._buffers[stream][:0] = output
            self._dropped += update.dropped

    def status(self, outcome: RunResult | None) -> str:
        """Describes the command's state in a few words."""
        if outcome is None:
            return f"{self.id} is running"
        if outcome.ending is RunEnding.CANCELLED:
            return f"{self.id} was killed"
        return f"{self.id} ended with exit code {outcome.exit_code}"

    def kill(self) -> bool:
        """Ends the command and waits for that. Returns False if it had already ended."""
        was_running = not self.ended.is_set()
        self.cancelled.set()
        self.ended.wait(_END_SECONDS)
        return was_running


class BackgroundCommands(Closeable):
    """The background commands of one workspace. Thread-safe."""

    def __init__(self) -> None:
        self._commands: dict[str, BackgroundCommand] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._listeners: list[Callable[[BackgroundCommand], object]] = []

    def on_ended(self, listener: Callable[[BackgroundCommand], object]) -> None:
        """Registers a listener that is called with each ended command, in the thread that ran it."""
        self._listeners.append(listener)

    def start(
        self,
        sandbox: Sandbox,
        request: RunRequest,
        on_done: Callable[[BackgroundCommand], None] = lambda _: None,
        session: str = "",
    ) -> BackgroundCommand:
        """Starts `request` in the background. Raises ToolError if too many commands run already."""
        with self._lock:
            running = [shell for shell in self._commands.values() if not shell.ended.is_set()]
            if len(running) >= _MAX_RUNNING:
                raise ToolError(
                    f"{_MAX_RUNNING} commands run in the background already.",
                    hint=f"End one first, for example {running[0].id}, with KillShell.",
                )
            ended = [shell.id for shell in self._commands.values() if shell.ended.is_set()]
            for old in ended[: max(len(ended) - _MAX_ENDED, 0)]:
                del self._commands[old]
            shell = BackgroundCommand(f"bash_{next(self._numbers)}", request.code, session)
            self._commands[shell.id] = shell
        request = replace(request, seconds=float("inf"), output_bytes=_UNLIMITED_BYTES)

        def run_command() -> None:
            try:
                shell.outcome = sandbox.run(request, shell.append, shell.cancelled)
            except ToolyardError as error:
                shell.append(Stream.ERR, f"{error}\n".encode())
                shell.outcome = RunResult(RunEnding.LOST, 1)
            finally:
                shell.ended.set()
                on_done(shell)
                for listener in tuple(self._listeners):
                    listener(shell)

        threading.Thread(target=run_command, name=f"toolyard-{shell.id}", daemon=True).start()
        return shell

    def any_running(self) -> bool:
        """Whether at least one command is still running."""
        with self._lock:
            return any(not shell.ended.is_set() for shell in self._commands.values())

    def get(self, name: str) -> BackgroundCommand:
        """Returns the command called `name`. Raises ToolError if there is none."""
        shell = self._commands.get(name)
        if shell is None:
            known = ", ".join(tuple(self._commands))
            hint = f"Known: {known}." if known else "No background command was started."
            raise ToolError(f"There is no background command {name!r}.", hint=hint)
        return shell

    def end_notices(self, session: str) -> list[str]:
        """Returns a line for each command of this session that has ended and was not reported yet."""
        lines: list[str] = []
        with self._lock:
            shells = [shell for shell in self._commands.values() if shell.session == session and shell.ended.is_set()]
            for shell in shells:
                if not shell.end_reported:
                    shell.end_reported = True
                    command = " ".join(shell.command.split())
                    shown = command if len(command) <= _COMMAND_CHARS else f"{command[:_COMMAND_CHARS]}..."
                    lines.append(f"[{shell.status(shell.outcome)}: {shown}. Read its output with BashOutput.]")
        return lines

    def close(self) -> None:
        shells = tuple(self._commands.values())
        for shell in shells:
            shell.cancelled.set()
        until = time.monotonic() + _END_SECONDS
        for shell in shells:
            shell.ended.wait(max(until - time.monotonic(), 0))
