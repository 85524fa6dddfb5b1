"""The interface of a thread store. `tests/support/thread_store_suite` tests every implementation.

A store is used by many worker threads and, with others of its kind, by many processes at once. A turn holds its
thread until it ends; the next one waits, in order of arrival, and sees what was stored. An expired thread is
distinguished from an unknown one: its text is deleted, and its id is kept for a year.
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
"""Poll interval while waiting for a thread."""
TOMBSTONE_SECONDS: Final = 366 * 86_400.0
"""How long the id of an expired thread is kept."""
OPEN_TURN_GRACE_SECONDS: Final = 900.0
"""How long the text of an expired thread is kept for a turn in progress; it cannot be read otherwise."""

_FIELD = "continuation_id"
_ID = re.compile(r"[0-9a-f]{32}")
_SHOWN_CHARS = 40
_START_NEW = f"Leave {_FIELD} out to start a new thread"


class RefusedThread(ValidationError):  # noqa: N818 - describes the thread
    """A thread that cannot be continued; `reason` is a machine-readable code."""

    reason: ClassVar[str]

    def __init__(self, error: str, *, hint: str) -> None:
        super().__init__(f"{error}.", (FieldError(_FIELD, error),), hint=hint)
        self.facts = {"reason": self.reason}


class UnknownThread(RefusedThread):
    """There is no thread with this id."""

    reason = "unknown_thread"

    def __init__(self, thread: str) -> None:
        hint = f"{_START_NEW}, or check the id: it must come from an earlier answer in this workspace."
        super().__init__(f"There is no thread {_display_id(thread)}", hint=hint)


class ExpiredThread(RefusedThread):
    """The thread's last turn is too long ago."""

    reason = "expired_thread"

    def __init__(self, thread: str) -> None:
        hint = f"{_START_NEW}, and repeat what it has to know. `assistant.thread_days` sets how long threads last."
        super().__init__(f"Thread {_display_id(thread)} has expired: its last turn is too long ago", hint=hint)


class FullThread(RefusedThread):
    """The thread has as many turns as allowed."""

    reason = "full_thread"

    def __init__(self, thread: str, turns: int) -> None:
        hint = f"{_START_NEW}, and give it a summary of this one. `assistant.thread_turns` sets the limit."
        super().__init__(
            f"Thread {_display_id(thread)} is full: it has {turns:,} turn{'s' * (turns != 1)}", hint=hint
        )


@dataclass(frozen=True, slots=True)
class ThreadLimits:
    """How long threads last, and how many turns they may have."""

    seconds: float
    """After the last turn."""
    turns: int


class OpenTurn:
    """A turn in progress, which holds its thread."""

    def __init__(self, thread: Thread, limits: ThreadLimits, keep: Callable[[Thread, Turn], Thread]) -> None:
        """Raises FullThread."""
        self.thread = thread
        """The thread so far. A new one has an id and no turns."""
        self._limits = limits
        self._store_turn = keep
        self._is_over = False
        self._require_room()

    def keep(self, turn: Turn) -> int:
        """Stores a turn durably; returns its number, from 1."""
        if self._is_over:
            raise RuntimeError("the turn has ended, and another one may hold the thread")
        self._require_room()
        self.thread = self._store_turn(self.thread, turn)
        return len(self.thread.turns)

    def end(self) -> None:
        """Called by the store before it releases the thread."""
        self._is_over = True

    def _require_room(self) -> None:
        if len(self.thread.turns) >= self._limits.turns:
            raise FullThread(self.thread.id, len(self.thread.turns))


class ThreadStore(Protocol):
    """Stores threads. Every method may raise SystemFault."""

    def turn(self, thread: str | None, check_can_wait: Callable[[], None]) -> AbstractContextManager[OpenTurn]:
        """Holds a thread for a turn; None creates a new thread, which is stored with its first turn.

        While another turn holds it, `check_can_wait` is called repeatedly and raises to give up. Raises
        UnknownThread, ExpiredThread or FullThread on entry.
        """
        ...

    def read(self, thread: str) -> Thread:
        """Returns the thread. Raises UnknownThread or ExpiredThread."""
        ...

    def ids_with_prefix(self, prefix: str) -> tuple[str, ...]:
        """Returns the ids of all threads that start with the prefix."""
        ...

    def list(self, most: int = DEFAULT_LIST_LIMIT) -> tuple[ThreadSummary, ...]:
        """Returns summaries, by time of the last turn, newest first."""
        ...

    def search(self, words: str, most: int = DEFAULT_LIST_LIMIT) -> tuple[ThreadHit, ...]:
        """Returns turns that contain all of the words, newest threads first."""
        ...

    def delete(self, thread: str) -> bool:
        """Deletes a thread; returns whether there was one. A turn in progress in it can no longer be stored."""
        ...

    def close(self) -> None: ...


def new_thread(now: float) -> Thread:
    """Returns a new thread. Its id is unguessable, because any client that knows it can continue the thread."""
    return Thread(secrets.token_hex(16), now, now, ())


def require_id(thread: str) -> None:
    """Raises UnknownThread for an id that no store has issued."""
    if _ID.fullmatch(thread) is None:
        raise UnknownThread(thread)


def _display_id(thread: str) -> str:
    """Returns the id for messages: a client may send anything, even a page of text."""
    return thread if _ID.fullmatch(thread) else repr(thread[:_SHOWN_CHARS])
