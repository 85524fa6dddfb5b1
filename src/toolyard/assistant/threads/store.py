"""The interface of a thread store, whatever its storage. `tests/support/thread_store_suite` tests every one.

A store is used from many worker threads and, with others of its kind, from many processes at once. Whoever takes a
turn in a thread holds it until the turn is over; the next one waits, in order of arrival, and sees what was kept. A
thread that expired is told apart from one that never was: its text goes, and its name is kept for a year.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from toolyard.assistant.threads.thread import Thread, ThreadHit, ThreadSummary, Turn
from toolyard.core.errors import FieldError, ValidationError

DEFAULT_LIST_LIMIT: Final = 100
WAIT_SECONDS: Final = 0.02
"""Between two looks whether a thread is free, each of which may give up."""
TOMBSTONE_SECONDS: Final = 366 * 86_400.0
"""How long the name of a thread is kept after it expired."""
OPEN_TURN_GRACE_SECONDS: Final = 900.0
"""How long after it expired its text is kept for a turn that was under way; nobody else is given it."""

_FIELD = "continuation_id"
_ID = re.compile(r"[0-9a-f]{32}")
_SHOWN_CHARS = 40
_START_NEW = f"Leave {_FIELD} out to begin a new thread"


class RefusedThread(ValidationError):  # noqa: N818 - what is wrong with the thread, not with the call
    """A thread that cannot be gone on with; `reason` tells machines why."""

    reason: ClassVar[str]

    def __init__(self, error: str, *, hint: str) -> None:
        super().__init__(f"{error}.", (FieldError(_FIELD, error),), hint=hint)
        self.facts = {"reason": self.reason}


class UnknownThread(RefusedThread):
    reason = "unknown_thread"

    def __init__(self, thread: str) -> None:
        hint = f"{_START_NEW}, or check the id: it is the one that an earlier answer in this workspace gave."
        super().__init__(f"There is no thread {_display_id(thread)}", hint=hint)


class ExpiredThread(RefusedThread):
    reason = "expired_thread"

    def __init__(self, thread: str) -> None:
        hint = f"{_START_NEW}, and say again what it has to know. `assistant.thread_days` is how long threads last."
        super().__init__(f"Thread {_display_id(thread)} has expired: its last turn is too long ago", hint=hint)


class FullThread(RefusedThread):
    reason = "full_thread"

    def __init__(self, thread: str, turns: int) -> None:
        hint = f"{_START_NEW}, and give it a summary of this one. `assistant.thread_turns` is how many turns one may have."
        super().__init__(
            f"Thread {_display_id(thread)} is full: it has {turns:,} turn{'s' * (turns != 1)}", hint=hint
        )


@dataclass(frozen=True, slots=True)
class ThreadLimits:
    """How long threads last, and how long they may become."""

    seconds: float
    """After the last turn."""
    turns: int


class OpenTurn:
    """A thread that is held, while a turn is taken in it."""

    def __init__(self, thread: Thread, limits: ThreadLimits, keep: Callable[[Thread, Turn], Thread]) -> None:
        """Raises FullThread."""
        self.thread = thread
        """As far as it goes. A new one has its id, and no turns."""
        self._limits = limits
        self._store_turn = keep
        self._is_over = False
        self._require_room()

    def keep(self, turn: Turn) -> int:
        """Keep a turn for good; it is kept when this returns. The number of the turn, from 1."""
        if self._is_over:
            raise RuntimeError("the turn is over, and somebody else may have the thread")
        self._require_room()
        self.thread = self._store_turn(self.thread, turn)
        return len(self.thread.turns)

    def end(self) -> None:
        """The store's to call, before it lets the thread go."""
        self._is_over = True

    def _require_room(self) -> None:
        if len(self.thread.turns) >= self._limits.turns:
            raise FullThread(self.thread.id, len(self.thread.turns))


class ThreadStore(Protocol):
    """Every method may raise SystemFault."""

    def turn(self, thread: str | None, check_can_wait: Callable[[], None]) -> AbstractContextManager[OpenTurn]:
        """Hold a thread for a turn; None makes a new one, of which nothing is kept before its first turn is.

        While somebody else holds it, `check_can_wait` is called again and again, and raises to give up. Raises
        UnknownThread, ExpiredThread or FullThread on entry.
        """
        ...

    def read(self, thread: str) -> Thread:
        """Raises UnknownThread or ExpiredThread."""
        ...

    def ids_with_prefix(self, prefix: str) -> tuple[str, ...]:
        """The ids of all threads that begin so."""
        ...

    def list(self, most: int = DEFAULT_LIST_LIMIT) -> tuple[ThreadSummary, ...]:
        """The newest first: by their last turns."""
        ...

    def search(self, words: str, most: int = DEFAULT_LIST_LIMIT) -> tuple[ThreadHit, ...]:
        """Turns in which each of the words occurs, of the newest threads first."""
        ...

    def delete(self, thread: str) -> bool:
        """Whether there was one. Nothing of it stays, and a turn that is under way in it cannot be kept."""
        ...

    def close(self) -> None: ...


def new_thread(now: float) -> Thread:
    """One whose id nobody can guess: whoever knows it can go on with it."""
    return Thread(secrets.token_hex(16), now, now, ())


def require_id(thread: str) -> None:
    """Raises UnknownThread for what no store ever gave out."""
    if _ID.fullmatch(thread) is None:
        raise UnknownThread(thread)


def _display_id(thread: str) -> str:
    """What a client says is its own, and perhaps a page of text."""
    return thread if _ID.fullmatch(thread) else repr(thread[:_SHOWN_CHARS])
