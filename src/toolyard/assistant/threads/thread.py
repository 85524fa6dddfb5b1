"""Data of a thread: its questions and answers, turn by turn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

_TITLE_CHARS = 80
_READ_CHARS = 1_000
"""Of the first question, for the title: pasted files start with a few blank lines at most."""


@dataclass(frozen=True, slots=True)
class FileSeen:
    """A file as it was shown to the model."""

    path: str
    digest: str
    """Of the version that was shown, the newest at that turn."""


@dataclass(frozen=True, slots=True)
class Message:
    """A question or an answer."""

    role: Literal["user", "assistant"]
    text: str
    tool: str = ""
    model: str = ""
    at: float = 0.0
    """Seconds since 1970."""
    files: tuple[FileSeen, ...] = ()
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """A question and its answer."""

    asked: Message
    answered: Message


@dataclass(frozen=True, slots=True)
class Thread:
    """All turns of a thread."""

    id: str
    created: float
    updated: float
    """When its last turn was stored."""
    turns: tuple[Turn, ...]

    def with_turn(self, turn: Turn, now: float) -> Thread:
        """Returns the thread with a turn appended."""
        return replace(self, updated=now, turns=(*self.turns, turn))

    @property
    def summary(self) -> ThreadSummary:
        tools = (message.tool for turn in self.turns for message in (turn.asked, turn.answered))
        return ThreadSummary(
            id=self.id,
            created=self.created,
            updated=self.updated,
            turns=len(self.turns),
            title=_title(self.turns[0].asked.text) if self.turns else "",
            tools=tuple(dict.fromkeys(tool for tool in tools if tool)),
        )


@dataclass(frozen=True, slots=True)
class ThreadSummary:
    """What lists show of a thread."""

    id: str
    created: float
    updated: float
    turns: int
    title: str
    """The beginning of the first question."""
    tools: tuple[str, ...]
    """The tools that were used, in order of first use."""


@dataclass(frozen=True, slots=True)
class ThreadHit:
    """A turn that a search found."""

    thread: ThreadSummary
    turn: int
    """From 1."""
    role: Literal["user", "assistant"]
    """The author of the excerpt."""
    excerpt: str


def _title(text: str) -> str:
    words = " ".join(text.lstrip()[:_READ_CHARS].partition("\n\n")[0].split())
    return words if len(words) <= _TITLE_CHARS else f"{words[: _TITLE_CHARS - 1].rstrip()}…"
