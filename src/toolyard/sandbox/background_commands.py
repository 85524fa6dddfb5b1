"""Commands that run on in the background, each in a thread that collects what it prints.

`Shells` owns them: `close()` ends every one. What a shell printed is handed out once; when nobody asks for it in
time the oldest is dropped, and the next answer says so.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from toolyard.core.closeable import Closing
from toolyard.core.errors import ToolError, ToolyardError
from toolyard.core.limits import MIB
from toolyard.sandbox.spec import Ending, Outcome, Request, Sandbox, Stream

_MOST_SHELLS = 32
_KEPT_ENDED = 64  # whose output can still be asked for
_KEPT_BYTES = 1 * MIB
_ENDLESS_BYTES = 1 << 40
_END_SECONDS = 5.0
_SHOWN_COMMAND = 60


@dataclass(frozen=True, slots=True)
class News:
    """What a shell printed since it was last asked, and how it fares."""

    output: dict[Stream, bytes]
    dropped: int
    outcome: Outcome | None
    """None while it runs."""


@dataclass(slots=True, eq=False)
class Shell:
    id: str
    command: str
    session: str = ""
    """Who started it, and hears of its end."""
    is_known_to_have_ended: bool = False
    cancelled: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    outcome: Outcome | None = None
    _kept: dict[Stream, bytearray] = field(default_factory=lambda: {stream: bytearray() for stream in Stream})
    _dropped: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, stream: Stream, data: bytes) -> None:
        with self._lock:
            kept = self._kept[stream]
            kept += data
            if len(kept) > _KEPT_BYTES:
                self._dropped += len(kept) - _KEPT_BYTES
                del kept[: len(kept) - _KEPT_BYTES]

    def news(self) -> News:
        with self._lock:
            outcome = self.outcome
            output = {stream: bytes(kept) for stream, kept in self._kept.items()}
            for kept in self._kept.values():
                kept.clear()
            dropped, self._dropped = self._dropped, 0
        return News(output, dropped, outcome)

    def put_back(self, news: News) -> None:
        """Hand it out again with the next answer: this one did not reach anybody."""
        with self._lock:
            for stream, output in news.output.items():
                self._kept[stream][:0] = output
            self._dropped += news.dropped

    def status(self, outcome: Outcome | None) -> str:
        if outcome is None:
            return f"{self.id} is running"
        if outcome.ending is Ending.CANCELLED:
            return f"{self.id} was killed"
        return f"{self.id} ended with exit code {outcome.exit_code}"

    def kill(self) -> bool:
        """End it and wait until it is gone. False when it had ended by itself before."""
        was_running = not self.ended.is_set()
        self.cancelled.set()
        self.ended.wait(_END_SECONDS)
        return was_running


class Shells(Closing):
    def __init__(self) -> None:
        self._shells: dict[str, Shell] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._listeners: list[Callable[[Shell], object]] = []

    def on_ended(self, listener: Callable[[Shell], object]) -> None:
        """Have `listener` called with each command that ended, in the thread that ran it."""
        self._listeners.append(listener)

    def start(
        self,
        sandbox: Sandbox,
        request: Request,
        done: Callable[[Shell], None] = lambda _: None,
        session: str = "",
    ) -> Shell:
        with self._lock:
            running = [shell for shell in self._shells.values() if not shell.ended.is_set()]
            if len(running) >= _MOST_SHELLS:
                raise ToolError(
                    f"{_MOST_SHELLS} commands run in the background already.",
                    hint=f"End one first, for example {running[0].id}, with KillShell.",
                )
            ended = [shell.id for shell in self._shells.values() if shell.ended.is_set()]
            for old in ended[: max(len(ended) - _KEPT_ENDED, 0)]:
                del self._shells[old]
            shell = Shell(f"bash_{next(self._numbers)}", request.code, session)
            self._shells[shell.id] = shell
        request = replace(request, seconds=float("inf"), output_bytes=_ENDLESS_BYTES)

        def work() -> None:
            try:
                shell.outcome = sandbox.run(request, shell.take, shell.cancelled)
            except ToolyardError as error:
                shell.take(Stream.ERR, f"{error}\n".encode())
                shell.outcome = Outcome(Ending.LOST, 1)
            finally:
                shell.ended.set()
                done(shell)
                for listener in tuple(self._listeners):
                    listener(shell)

        threading.Thread(target=work, name=f"toolyard-{shell.id}", daemon=True).start()
        return shell

    def any_running(self) -> bool:
        with self._lock:
            return any(not shell.ended.is_set() for shell in self._shells.values())

    def get(self, name: str) -> Shell:
        shell = self._shells.get(name)
        if shell is None:
            known = ", ".join(tuple(self._shells)) or "none was started"
            raise ToolError(f"There is no background command {name!r}.", hint=f"Known: {known}.")
        return shell

    def notices(self, session: str) -> list[str]:
        """A line for each command of this session that has ended since it was last asked about. Each is told once."""
        lines: list[str] = []
        with self._lock:
            shells = [shell for shell in self._shells.values() if shell.session == session and shell.ended.is_set()]
            for shell in shells:
                if not shell.is_known_to_have_ended:
                    shell.is_known_to_have_ended = True
                    command = " ".join(shell.command.split())
                    shown = command if len(command) <= _SHOWN_COMMAND else f"{command[:_SHOWN_COMMAND]}..."
                    lines.append(f"[{shell.status(shell.outcome)}: {shown}. Read its output with BashOutput.]")
        return lines

    def close(self) -> None:
        shells = tuple(self._shells.values())
        for shell in shells:
            shell.cancelled.set()
        until = time.monotonic() + _END_SECONDS
        for shell in shells:
            shell.ended.wait(max(until - time.monotonic(), 0))
