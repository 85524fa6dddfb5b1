"""What happens in a workspace, for other processes: file operations, and the ends of background commands.

An Activity hands each to its listeners at once, in the thread in which it happened. Neither the content of files nor
the arguments of calls are part of it.
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
    """What an occurrence is about. Each is the name of a logger for MCP clients."""

    FILES = "toolyard.files"
    COMMANDS = "toolyard.commands"


class Severity(StrEnum):
    """The levels of MCP's log messages that are used here."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class ActivityEvent:
    logger: LoggerName
    severity: Severity
    data: dict[str, Any]
    """As it is sent, ready for JSON."""
    call: str = ""
    """The id of the call that it belongs to, where it belongs to one."""


Listener = Callable[[ActivityEvent], object]


class Activity:
    """Costs nothing while there are no listeners. Safe to use from threads."""

    def __init__(self, detector: FilesystemToolDetector, shells: BackgroundCommands, agent: str) -> None:
        self._detector = detector
        self._shells = shells
        self._agent = agent
        self._lock = threading.Lock()
        self._listeners: tuple[Listener, ...] = ()

    def add_listener(self, listener: Listener) -> None:
        """Have `listener` called from now on. It returns quickly and raises nothing."""
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
