"""Publishes what happens in a workspace to other processes: file operations and the end of background commands.

An Activity calls its listeners synchronously, in the thread in which the event happened. Events contain neither file
content nor call arguments.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from toolyard.files.os_errors import printable_name
from toolyard.workspace.file_tool_detector import OperationOutcome

if TYPE_CHECKING:
    from toolyard.sandbox.background_commands import BackgroundCommand, BackgroundCommands
    from toolyard.workspace.file_tool_detector import FileOperation, FilesystemToolDetector

_MAX_PATHS = 100
_NS = 10**9


class LoggerName(StrEnum):
    """The logger names under which MCP clients receive the events."""

    FILES = "toolyard.files"
    COMMANDS = "toolyard.commands"


class Severity(StrEnum):
    """The MCP log levels in use."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class ActivityEvent:
    """One event: its logger, its severity and its JSON payload."""

    logger: LoggerName
    severity: Severity
    data: dict[str, Any]
    """The payload, ready for JSON."""
    call: str = ""
    """The id of the call that caused the event; empty without one."""


Listener = Callable[[ActivityEvent], object]


class Activity:
    """Forwards file operations and command ends to listeners. Does no work without listeners; thread-safe."""

    def __init__(self, detector: FilesystemToolDetector, shells: BackgroundCommands, agent: str) -> None:
        self._detector = detector
        self._shells = shells
        self._agent = agent
        self._lock = threading.Lock()
        self._listeners: tuple[Listener, ...] = ()

    def add_listener(self, listener: Listener) -> None:
        """Calls `listener` for every event from now on. It must return quickly and must not raise."""
        with self._lock:
            is_first = not self._listeners
            self._listeners += (listener,)
        if is_first:
            self._detector.register_callback(self._on_file_operation)
            self._shells.on_ended(self._on_command_ended)

    def _on_file_operation(self, operation: FileOperation) -> None:
        origin = operation.origin
        data = {
            "event": "file_operation",
            "agent": origin.agent or self._agent,
            "session": origin.session,
            "tool": operation.tool_name,
            "outcome": operation.outcome.value,
            "paths": [printable_name(path) for path in operation.paths[:_MAX_PATHS]],
            "changes_files": operation.changes_files,
            "snapshot": operation.snapshot,
            "time": _timestamp(operation.time_ns),
        }
        severity = Severity.INFO if operation.changes_files else Severity.DEBUG
        if operation.outcome is not OperationOutcome.OK:
            severity = Severity.WARNING
        self._notify_listeners(ActivityEvent(LoggerName.FILES, severity, data, origin.call))

    def _on_command_ended(self, shell: BackgroundCommand) -> None:
        outcome = shell.outcome
        data = {
            "event": "command_ended",
            "agent": self._agent,
            "session": shell.session,
            "shell_id": shell.id,
            "ending": outcome.ending.value if outcome is not None else "",
            "exit_code": outcome.exit_code if outcome is not None else None,
            "time": _timestamp(time.time_ns()),
        }
        self._notify_listeners(ActivityEvent(LoggerName.COMMANDS, Severity.INFO, data))

    def _notify_listeners(self, event: ActivityEvent) -> None:
        for listener in self._listeners:
            listener(event)


def _timestamp(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / _NS, UTC).isoformat(timespec="milliseconds")
