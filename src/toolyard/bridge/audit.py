"""Every operation on a client's files leaves one Event: in the program's log, and in an audit log where there is one.

What went well is told at TRACE, what failed at INFO, and what broke the rules at WARNING, with the path, the kind of
the violation, the stack and the client. Content is in none of them.
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
    spelled,
)
from toolyard.core.calls import AnswerPending
from toolyard.core.errors import SecurityError, ToolyardError, ValidationError
from toolyard.core.events import TARGET_CHARS, Event, Outcome
from toolyard.core.ids import new_id

if TYPE_CHECKING:
    from toolyard.bridge.client import Client
    from toolyard.bridge.violations import Violations
    from toolyard.storage.audit_log import AuditLog

TRACE: Final = 5
LOGGER: Final = logging.getLogger("toolyard.bridge")
logging.addLevelName(TRACE, "TRACE")
_SURFACE = "bridge"
_MOST_FRAMES = 30


@dataclass(frozen=True, slots=True)
class Operation:
    """What is told of one operation."""

    level: int
    event: Event
    violation: str = ""
    """Its kind, where the rules were broken."""
    stack: str = ""
    """How the program came to ask, then."""
    violations: int = 0
    """How many this client has by now."""


Listener = Callable[[Operation], None]


@dataclass(frozen=True, slots=True)
class _About:
    name: str
    path: str
    client: Client
    started: float


class Auditor:
    def __init__(self, violations: Violations, log: AuditLog | None = None, listen: Listener | None = None) -> None:
        """`listen` hears of every operation as well."""
        self._violations = violations
        self._log = log
        self._listen = listen

    @contextmanager
    def operation(self, name: str, path: str, client: Client) -> Generator[None]:
        """One operation, from its check to its end. A client that was refused for good is refused here."""
        about = _About(name, path, client, time.monotonic())
        try:
            self._violations.check(client.identity)
            yield
        except AnswerPending:
            self._tell(about, Outcome.ASKED)
            raise
        except ToolyardError as error:
            self._tell(about, _outcome(error), error)
            raise
        except BaseException:
            self._tell(about, Outcome.CANCELLED)
            raise
        self._tell(about, Outcome.OK)

    def refused_entry(self, name: str, path: str, violation: Violation | None, client: Client) -> None:
        """An entry of a folder that nobody can use. Telling of it is no violation of the client's."""
        about = _About(name, path, client, time.monotonic())
        event = _event(about, Outcome.DENIED, "deny", f"{violation}: an entry that cannot be used", 0)
        self._hand_out(Operation(logging.WARNING, event, str(violation), "", self._violations.of(client.identity)))

    def _tell(self, about: _About, outcome: Outcome, error: ToolyardError | None = None) -> None:
        violation = error if isinstance(error, PathRefusedError) else None
        decision = "deny" if isinstance(error, SecurityError) else "allow"
        event = _event(about, outcome, decision, _reason(error), error.code if error is not None else 0)
        counted = self._violations.of if violation is None else self._violations.add
        self._hand_out(
            Operation(
                level=_level(error),
                event=event,
                violation="" if violation is None else violation.violation.value,
                stack="" if violation is None else _stack(violation),
                violations=counted(about.client.identity),
            )
        )

        if isinstance(error, SamplingUnsupportedError):
            LOGGER.info("For the author of this server: %s", error.for_author)

    def _hand_out(self, told: Operation) -> None:
        _write(told)
        if self._log is not None:
            self._log.append(told.event)
        if self._listen is not None:
            self._listen(told)


def _event(about: _About, outcome: Outcome, decision: str, reason: str, code: int) -> Event:
    return Event(
        call=new_id(),
        surface=_SURFACE,
        agent=about.client.title[:TARGET_CHARS],
        session=about.client.identity[:TARGET_CHARS],
        tool=about.name,
        kind="read",
        target=spelled(about.path)[:TARGET_CHARS],
        decision=decision,
        reason=reason[:TARGET_CHARS],
        outcome=outcome,
        code=code,
        milliseconds=(time.monotonic() - about.started) * 1e3,
    )


def _outcome(error: ToolyardError) -> Outcome:
    if isinstance(error, SecurityError):
        return Outcome.DENIED
    return Outcome.INVALID if isinstance(error, ValidationError) else Outcome.FAILED


def _reason(error: ToolyardError | None) -> str:
    if isinstance(error, PathRefusedError):
        return f"{error.violation}: {error.message}"
    return error.message if error is not None else ""


def _level(error: ToolyardError | None) -> int:
    if error is None:
        return TRACE
    return logging.WARNING if isinstance(error, (PathRefusedError, ClientRefusedError)) else logging.INFO


def _stack(error: BaseException) -> str:
    """How the program came to ask, and where it was refused."""
    above = traceback.format_stack(limit=_MOST_FRAMES)
    return "".join([*above, *traceback.format_exception(error, limit=_MOST_FRAMES)])


def _write(told: Operation) -> None:
    event = told.event
    LOGGER.log(
        told.level,
        "%s %s: %s%s",
        event.tool,
        event.target,
        event.outcome,
        f" ({event.reason}; {event.agent}, {told.violations} violations)" if event.reason else "",
        extra={"bridge": told},
    )
