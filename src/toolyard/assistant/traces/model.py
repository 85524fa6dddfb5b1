"""Data of traces, and drafts of them while their lines are read.

The frames of a Trace start with the innermost, whatever order the language prints. In a chain of errors the cause
comes first.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

Language = Literal["python", "javascript", "java", "go", "rust", "c"]

MOST_TRACES = 100
MOST_FRAMES = 200
"""Per trace, those nearest to the error: a recursion has thousands."""
ERROR_CHARS = 500
_MOST_DRAFTS = 1_000


@dataclass(frozen=True, slots=True)
class Frame:
    """One location. `file` is spelled as in the trace (in Java: by package); `column` is 0 if the trace has none."""

    file: str
    line: int
    column: int = 0
    function: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """An error and its frames."""

    language: Language
    error: str
    frames: tuple[Frame, ...]


@dataclass(slots=True, eq=False)
class Draft:
    """A trace that is being read."""

    language: Language
    error: str
    is_deepest_last: bool = False
    is_bare: bool = False
    """Whether the error is worth reporting even without a frame."""
    frames: deque[Frame] = field(default_factory=deque[Frame])

    def add(self, frame: Frame) -> None:
        if len(self.frames) < MOST_FRAMES:
            self.frames.append(frame)
        elif self.is_deepest_last:
            self.frames.popleft()
            self.frames.append(frame)

    def to_trace(self) -> Trace:
        frames = reversed(self.frames) if self.is_deepest_last else self.frames
        return Trace(self.language, self.error[:ERROR_CHARS].strip(), tuple(frames))


class Drafts:
    """The traces of one text, in order."""

    def __init__(self) -> None:
        self._all: list[Draft] = []

    def open(
        self,
        language: Language,
        error: str = "",
        *,
        is_deepest_last: bool = False,
        is_bare: bool = False,
        causes: Draft | None = None,
    ) -> Draft:
        """Starts a trace: before the one that it `causes`, else at the end. Beyond the limit it is not recorded."""
        draft = Draft(language, error, is_deepest_last, is_bare)
        if len(self._all) < _MOST_DRAFTS:
            at = self._all.index(causes) if causes in self._all else len(self._all)
            self._all.insert(at, draft)
        return draft

    def traces(self) -> tuple[Trace, ...]:
        """Returns each distinct trace once: a log may repeat one a hundred times."""
        traces = (draft.to_trace() for draft in self._all if draft.frames or draft.is_bare)
        return tuple(dict.fromkeys(traces))[:MOST_TRACES]
