"""Records every operation on a client's files as one Event, in the program's log and in an audit log if configured.

Successful operations are logged at TRACE, failures at INFO, and policy violations at WARNING with the path, the kind
of violation, the stack and the client. File content is never logged.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from toolyard.bridge.errors import (
    ClientRefusedError,
    PathRefusedError,
    SamplingUnsupportedError,
    Violation,
    printable_text,
)
from toolyard.core.calls import AnswerPending
from toolyard.core.errors import SecurityError, ToolyardError, ValidationError
from toolyard.core.events import MAX_TARGET_CHARS, CallOutcome, Event
from toolyard.core.ids import new_id

if TYPE_CHECKING:
    from toolyard.bridge.client import BridgeClient
    from toolyard.bridge.violations import ViolationCounter
    from toolyard.storage.audit_log import AuditLog

TRACE: Final = 5
LOGGER: Final = logging.getLogger("toolyard.bridge")
logging.addLevelName(TRACE, "TRACE")
_SURFACE = "bridge"
_MAX_FRAMES = 30


@dataclass(frozen=True, slots=True)
class Operation:
    """The record of one operation."""

    level: int
    event: Event
    violation: str = ""
    """The kind of violation, if any."""
    stack: str = ""
    """The stack at the violation, if any."""
    violations: int = 0
    """The client's current number of violations."""


Listener = Callable[[Operation], None]


@dataclass(frozen=True, slots=True)
class _OperationStart:
    name: str
    path: str
    client: BridgeClient
    started: float


class Auditor:
    """Reports operations to the log, the audit log and a listener, and counts violations."""

    def __init__(
        self, violations: ViolationCounter, log: AuditLog | None = None, listen: Listener | None = None
    ) -> None:
        """`listen` is called with every operation."""
        self._violations = violations
        self._log = log
        self._listen = listen

    @contextmanager
    def operation(self, name: str, path: str, client: BridgeClient) -> Generator[None]:
        """Records the operation in the block. Raises ClientRefusedError if the client is currently refused."""
        about = _OperationStart(name, path, client, time.monotonic())
        try:
            self._violations.check(client.identity)
            yield
        except AnswerPending:
            self._report(about, CallOutcome.ASKED)
            raise
        except ToolyardError as error:
            self._report(about, _event_outcome(error), error)
            raise
        except BaseException:
            self._report(about, CallOutcome.CANCELLED)
            raise
        self._report(about, CallOutcome.OK)

    def report_refused_entry(self, name: str, path: str, violation: Violation | None, client: BridgeClient) -> None:
        """Records a folder entry that cannot be used. Listing it does not count as a violation by the client."""
        about = _OperationStart(name, path, client, time.monotonic())
        event = _build_event(about, CallOutcome.DENIED, "deny", f"{violation}: an entry that cannot be used", 0)
        self._publish(
            Operation(logging.WARNING, event, str(violation), "", self._violations.count_for(client.identity))
        )

    def _report(self, about: _OperationStart, outcome: CallOutcome, error: ToolyardError | None = None) -> None:
        violation = error if isinstance(error, PathRefusedError) else None
        decision = "deny" if isinstance(error, SecurityError) else "allow"
        event = _build_event(about, outcome, decision, _event_reason(error), error.code if error is not None else 0)
        counted = self._violations.count_for if violation is None else self._violations.add
        self._publish(
            Operation(
                level=_log_level(error),
                event=event,
                violation="" if violation is None else violation.violation.value,
                stack="" if violation is None else _format_stack(violation),
                violations=counted(about.client.identity),
            )
        )

        if isinstance(error, SamplingUnsupportedError):
            LOGGER.info("For the author of this server: %s", error.for_author)

    def _publish(self, operation: Operation) -> None:
        _write_log(operation)
        if self._log is not None:
            self._log.append(operation.event)
        if self._listen is not None:
            self._listen(operation)


def _build_event(about: _OperationStart, outcome: CallOutcome, decision: str, reason: str, code: int) -> Event:
    return Event(
        call=new_id(),
        surface=_SURFACE,
        agent=about.client.title[:MAX_TARGET_CHARS],
        session=about.client.identity[:MAX_TARGET_CHARS],
        tool=about.name,
        kind="read",
        target=printable_text(about.path)[:MAX_TARGET_CHARS],
        decision=decision,
        reason=reason[:MAX_TARGET_CHARS],
        outcome=outcome,
        code=code,
        milliseconds=(time.monotonic() - about.started) * 1e3,
    )


def _event_outcome(error: ToolyardError) -> CallOutcome:
    if isinstance(error, SecurityError):
        return CallOutcome.DENIED
    return CallOutcome.INVALID if isinstance(error, ValidationError) else CallOutcome.FAILED


def _event_reason(error: ToolyardError | None) -> str:
    if isinstance(error, PathRefusedError):
        return f"{error.violation}: {error.message}"
    return error.message if error is not None else ""


def _log_level(error: ToolyardError | None) -> int:
    if error is None:
        return TRACE
    return logging.WARNING if isinstance(error, (PathRefusedError, ClientRefusedError)) else logging.INFO


def _format_stack(error: BaseException) -> str:
    """Returns the call stack of the request and the traceback of the refusal."""
    above = traceback.format_stack(limit=_MAX_FRAMES)
    return "".join([*above, *traceback.format_exception(error, limit=_MAX_FRAMES)])


def _write_log(operation: Operation) -> None:
    event = operation.event
    LOGGER.log(
        operation.level,
        "%s %s: %s%s",
        event.tool,
        event.target,
        event.outcome,
        f" ({event.reason}; {event.agent}, {operation.violations} violations)" if event.reason else "",
        extra={"bridge": operation},
    )
