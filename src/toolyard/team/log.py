"""The log of a run: every event is a JSON line in `events.jsonl` of the run's folder.

`RunLog` owns the file until `close()`. It joins text deltas into a few records, which wait for one second at most;
every other event is written before `record` returns. One process writes at a time. A full disk or a missing file is
reported once and never stops a run. Beyond `max_bytes` only the events that the result depends on are written.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from toolyard.core.closeable import Closeable
from toolyard.core.errors import ValidationError
from toolyard.team.events import (
    AgentFailed,
    AgentStarted,
    Answered,
    FilesChanged,
    Notice,
    RoundStarted,
    RunFinished,
    RunStarted,
    TeamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolReturned,
    Used,
    Voted,
    as_json,
    from_json,
)

LOG_NAME: Final = "events.jsonl"
MAX_BYTES: Final = 64 * 1024 * 1024
_RESULT_RESERVE: Final = 0.25
"""Share of the maximum that is reserved for the result."""
_MAX_WAIT_SECONDS: Final = 1.0
_MAX_TEXT: Final = 64 * 1024
"""Maximum characters of joined text, and of any text in an event except answers."""
_MAX_ANSWER: Final = 1024 * 1024
_MAX_ITEMS: Final = 1000
_JSON_SCALARS: Final = str | int | float | bool | None
_RESULT_EVENTS: Final = (
    RunStarted,
    RoundStarted,
    AgentStarted,
    Answered,
    Voted,
    AgentFailed,
    RunFinished,
    Used,
    Notice,
)
"""Events that are written even if the log is full."""
_ANSWER_EVENTS: Final = (Answered, RunFinished)


@dataclass(slots=True)
class _PendingText:
    """Text deltas of one agent that are not written yet."""

    first: TextDelta | ThinkingDelta
    since: float
    pieces: list[str] = field(default_factory=list[str])
    length: int = 0

    def accepts(self, event: TextDelta | ThinkingDelta) -> bool:
        return event.type == self.first.type and event.round == self.first.round and self.length < _MAX_TEXT

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self.length += len(text)

    def event(self) -> TextDelta | ThinkingDelta:
        return type(self.first)(
            agent=self.first.agent, round=self.first.round, at=self.first.at, text="".join(self.pieces)
        )


class RunLog(Closeable):
    """Appends the events of a run to its log file."""

    def __init__(self, folder: str, on_notice: Callable[[Notice], None], *, max_bytes: int = MAX_BYTES) -> None:
        """Opens or continues the log in `folder`.

        The thread that calls `record`, `flush` or `close` calls `on_notice`, which may call `record` again.
        """
        self.path = os.path.join(folder, LOG_NAME)
        self._on_notice, self._max_bytes = on_notice, max_bytes
        self._lock = threading.RLock()
        self._wake = threading.Condition(self._lock)
        self._pending: dict[str, _PendingText] = {}
        self._file, self._size, self._is_torn = -1, 0, False
        self._has_fault = self._is_full = self._is_closed = False
        self._unsent_notices: list[str] = []
        self._flusher: threading.Thread | None = None
        with self._lock:
            self._open_file()

    def record(self, event: TeamEvent) -> None:
        """Writes an event. Never raises an OSError."""
        with self._lock:
            if self._is_closed:
                return
            if isinstance(event, TextDelta | ThinkingDelta):
                self._buffer_text(event)
            else:
                self._write_pending(event.agent)
                self._write(event)
        self._send_notices()

    def flush(self) -> None:
        """Writes the pending text."""
        with self._lock:
            self._write_pending()
        self._send_notices()

    def close(self) -> None:
        self.flush()
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._wake.notify_all()
            file, self._file = self._file, -1
        if self._flusher is not None:
            self._flusher.join()
        if file >= 0:
            os.close(file)

    def _buffer_text(self, event: TextDelta | ThinkingDelta) -> None:
        pending = self._pending.get(event.agent)
        if pending is not None and not pending.accepts(event):
            self._write_pending(event.agent)
            pending = None
        if pending is None:
            pending = self._pending[event.agent] = _PendingText(event, time.monotonic())
            if self._flusher is None:
                self._flusher = threading.Thread(target=self._flush_periodically, name="run log", daemon=True)
                self._flusher.start()
            self._wake.notify_all()
        pending.add(event.text)

    def _flush_periodically(self) -> None:
        with self._lock:
            while not self._is_closed:
                if not self._pending:
                    self._wake.wait()
                    continue
                seconds_left = (
                    min(each.since for each in self._pending.values()) + _MAX_WAIT_SECONDS - time.monotonic()
                )
                if seconds_left > 0:
                    self._wake.wait(seconds_left)
                else:
                    self._write_pending()

    def _write_pending(self, agent: str = "") -> None:
        """Writes the pending text of one agent, or of all."""
        for each in [agent] if agent else [*self._pending]:
            pending = self._pending.pop(each, None)
            if pending is not None:
                self._write(pending.event())

    def _write(self, event: TeamEvent) -> None:
        longest = _MAX_ANSWER if isinstance(event, _ANSWER_EVENTS) else _MAX_TEXT
        line = f"{json_line(event, longest)}\n".encode()
        size = self._size + len(line)
        if size > self._max_bytes:
            self._note_full()
            ends_it = isinstance(event, RunFinished)
            if not ends_it and (
                not isinstance(event, _RESULT_EVENTS) or size > self._max_bytes * (1 + _RESULT_RESERVE)
            ):
                return
        self._append_line(line)

    def _append_line(self, line: bytes) -> None:
        if self._file < 0 and not self._open_file():
            return
        if self._is_torn:
            line = b"\n" + line
        try:
            done = os.write(self._file, line)
        except OSError as error:
            self._note_fault(error)
            return
        self._size += done
        self._is_torn = done < len(line)

    def _open_file(self) -> bool:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._file = os.open(self.path, flags, 0o600)
            self._size = os.fstat(self._file).st_size
            # The previous writer may have been killed in the middle of a line.
            self._is_torn = self._size > 0 and os.pread(self._file, 1, self._size - 1) != b"\n"
        except OSError as error:
            self._note_fault(error)
            return False
        return True

    def _note_fault(self, error: OSError) -> None:
        if not self._has_fault:
            self._has_fault = True
            why = error.strerror or str(error)
            self._unsent_notices.append(f"The log of this run has gaps: {self.path} cannot be written: {why}.")

    def _note_full(self) -> None:
        if not self._is_full:
            self._is_full = True
            self._unsent_notices.append(
                f"The log of this run has {self._max_bytes:,} bytes: from now on it omits details."
            )

    def _send_notices(self) -> None:
        """Sends pending notices. Never called by the flusher thread: the listener may not expect another thread."""
        with self._lock:
            notices, self._unsent_notices = self._unsent_notices, []
        for text in notices:
            self._on_notice(Notice(text=text))


def read_log(path: str) -> Iterator[TeamEvent]:
    """Yields the events of a log in order, skipping incomplete and unknown lines.

    Raises OSError if there is no log.
    """
    with open(path, "rb") as file:
        for line in file:
            try:
                record: object = json.loads(line)
                if isinstance(record, dict):
                    yield from_json(cast("dict[str, Any]", record))
            except (ValueError, TypeError, KeyError, RecursionError, ValidationError):
                continue


def files_changed_before(folder: str) -> dict[str, tuple[str, ...]]:
    """Returns the files that the log mentions, by agent; empty if there is no log."""
    found: dict[str, dict[str, None]] = {}
    try:
        for event in read_log(os.path.join(folder, LOG_NAME)):
            if isinstance(event, FilesChanged):
                found.setdefault(event.agent, {}).update(dict.fromkeys(event.paths))
    except OSError:
        return {}
    return {agent: tuple(paths) for agent, paths in found.items()}


@dataclass(frozen=True, slots=True)
class EarlierCall:
    """A call in the log of an interrupted run."""

    round: int
    tool: str
    is_finished: bool


def calls_since_last_turn(folder: str) -> dict[str, dict[str, EarlierCall]]:
    """Returns the calls since the last turn of each agent, by agent and id; empty if there is no log."""
    found: dict[str, dict[str, EarlierCall]] = {}
    try:
        for event in read_log(os.path.join(folder, LOG_NAME)):
            calls = found.setdefault(event.agent, {})
            match event:
                case ToolCalled():
                    calls[event.call] = EarlierCall(event.round, event.tool, is_finished=False)
                case ToolReturned():
                    calls[event.call] = EarlierCall(event.round, event.tool, is_finished=True)
                case Used():  # results are saved before the next turn
                    found[event.agent] = {id_: call for id_, call in calls.items() if not call.is_finished}
                case _:
                    pass
    except OSError:
        return {}
    return found


def json_line(event: TeamEvent, longest: int = sys.maxsize) -> str:
    """Returns an event as one line without terminal control characters, with texts cut at `longest` characters."""
    try:
        line = json.dumps(_truncate(as_json(event), longest), separators=(",", ":"))
    except RecursionError:  # a model may nest arguments arbitrarily deep
        if not isinstance(event, ToolCalled):
            raise
        return json_line(dataclasses.replace(event, arguments={"…": "nested too deep to be shown"}), longest)
    return line.replace("\x7f", "\\u007f")  # JSON does not escape it


def _truncate(value: object, longest: int) -> object:
    """Returns `value` with long texts and lists cut and everything unknown to JSON converted to text."""
    if isinstance(value, str):
        return value if len(value) <= longest else f"{value[:longest]}… ({len(value) - longest:,} more characters)"
    if isinstance(value, Mapping):
        named = cast("Mapping[object, object]", value)
        return {str(name): _truncate(each, longest) for name, each in named.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        several = cast("Sequence[object]", value)
        return [_truncate(each, longest) for each in several[:_MAX_ITEMS]]
    return value if isinstance(value, _JSON_SCALARS) else str(value)
