"""A thread: what was asked and answered so far, turn by turn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

_TITLE_CHARS = 80
_READ_CHARS = 1_000
"""Of what was first asked: whoever pastes a file begins with blank lines at most."""


@dataclass(frozen=True, slots=True)
class FileSeen:
    """A file as it was shown to the model."""

    path: str
    digest: str
    """Of the content that was shown: the newest that is known at that turn."""


@dataclass(frozen=True, slots=True)
class Message:
    role: Literal["user", "assistant"]
    text: str
    tool: str = ""
    model: str = ""
    at: float = 0.0
    """When, in seconds since 1970."""
    files: tuple[FileSeen, ...] = ()
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    asked: Message
    answered: Message


@dataclass(frozen=True, slots=True)
class Thread:
    id: str
    created: float
    updated: float
    """When its last turn was kept."""
    turns: tuple[Turn, ...]

    def with_turn(self, turn: Turn, now: float) -> Thread:
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
    id: str
    created: float
    updated: float
    turns: int
    title: str
    """The first words that were asked."""
    tools: tuple[str, ...]
    """Those that asked, in the order in which they first did."""


@dataclass(frozen=True, slots=True)
class ThreadHit:
    """A turn that a search found."""

    thread: ThreadSummary
    turn: int
    """From 1."""
    role: Literal["user", "assistant"]
    """Who said what the excerpt shows."""
    excerpt: str


def _title(text: str) -> str:
    words = " ".join(text.lstrip()[:_READ_CHARS].partition("\n\n")[0].split())
    return words if len(words) <= _TITLE_CHARS else f"{words[: _TITLE_CHARS - 1].rstrip()}…"
