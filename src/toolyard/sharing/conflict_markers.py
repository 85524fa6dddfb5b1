"""Conflicts as they are marked in a text: writing the marks, and finding those that nobody has resolved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from toolyard.sharing.diff3 import Conflict, Lines, Settled

_OURS, _BETWEEN, _THEIRS = b"<<<<<<< ", b"=======", b">>>>>>> "


class Side(StrEnum):
    OURS = "ours"
    THEIRS = "theirs"

    def of(self, conflict: Conflict) -> Lines:
        return conflict.ours if self is Side.OURS else conflict.theirs


@dataclass(frozen=True, slots=True)
class Names:
    """Of the two sides, in the marks."""

    ours: str
    theirs: str


def joined(pieces: Iterable[Settled | Conflict], names: Names, ending: bytes, prefer: Side | None) -> bytes:
    """One text, with each conflict marked, or settled by the side that is preferred."""
    parts: list[bytes] = []
    for piece in pieces:
        if isinstance(piece, Settled):
            parts += piece.lines
        else:
            parts += _marked(piece, names, ending) if prefer is None else prefer.of(piece)
    return b"".join(parts)


def _marked(conflict: Conflict, names: Names, ending: bytes) -> Iterator[bytes]:
    yield _OURS + names.ours.encode() + ending
    yield from _ended(conflict.ours, ending)
    yield _BETWEEN + ending
    yield from _ended(conflict.theirs, ending)
    yield _THEIRS + names.theirs.encode() + ending


def _ended(lines: Lines, ending: bytes) -> Iterator[bytes]:
    yield from lines
    if lines and not lines[-1].endswith((b"\n", b"\r")):
        yield ending


def unresolved(text: bytes, ours: str) -> list[Settled | Conflict]:
    """The pieces of a text in which the agent `ours` has conflicts marked; whole marks alone count."""
    first = _OURS + ours.encode()
    done: list[Settled | Conflict] = []
    begun: Lines = []  # what stands, or the lines of a mark whose end has not come
    between = 0  # where the second side begins among them; 0 when that has not come
    is_inside = False
    for line in text.splitlines(keepends=True):
        bare = line.rstrip(b"\r\n")
        if bare == first:
            done.append(Settled(begun))
            begun, between, is_inside = [], 0, True
        begun.append(line)
        if is_inside and bare == _BETWEEN and not between:
            between = len(begun)
        elif between and bare.startswith(_THEIRS):
            done.append(Conflict(begun[1 : between - 1], begun[between:-1]))
            begun, between, is_inside = [], 0, False
    return [*done, Settled(begun)]
