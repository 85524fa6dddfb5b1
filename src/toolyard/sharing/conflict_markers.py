"""Conflicts as they are marked in a text: writing the marks, and finding those that nobody has resolved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from toolyard.sharing.diff3 import Conflict, Lines, MergedLines

_OURS_MARKER, _SEPARATOR_MARKER, _THEIRS_MARKER = b"<<<<<<< ", b"=======", b">>>>>>> "


class Side(StrEnum):
    OURS = "ours"
    THEIRS = "theirs"

    def lines_of(self, conflict: Conflict) -> Lines:
        return conflict.ours if self is Side.OURS else conflict.theirs


@dataclass(frozen=True, slots=True)
class SideNames:
    """Of the two sides, in the marks."""

    ours: str
    theirs: str


def render_merge(
    pieces: Iterable[MergedLines | Conflict], names: SideNames, ending: bytes, prefer: Side | None
) -> bytes:
    """One text, with each conflict marked, or settled by the side that is preferred."""
    parts: list[bytes] = []
    for piece in pieces:
        if isinstance(piece, MergedLines):
            parts += piece.lines
        else:
            parts += _with_markers(piece, names, ending) if prefer is None else prefer.lines_of(piece)
    return b"".join(parts)


def _with_markers(conflict: Conflict, names: SideNames, ending: bytes) -> Iterator[bytes]:
    yield _OURS_MARKER + names.ours.encode() + ending
    yield from _with_final_newline(conflict.ours, ending)
    yield _SEPARATOR_MARKER + ending
    yield from _with_final_newline(conflict.theirs, ending)
    yield _THEIRS_MARKER + names.theirs.encode() + ending


def _with_final_newline(lines: Lines, ending: bytes) -> Iterator[bytes]:
    yield from lines
    if lines and not lines[-1].endswith((b"\n", b"\r")):
        yield ending


def parse_conflict_markers(text: bytes, ours: str) -> list[MergedLines | Conflict]:
    """The pieces of a text in which the agent `ours` has conflicts marked; whole marks alone count."""
    first = _OURS_MARKER + ours.encode()
    done: list[MergedLines | Conflict] = []
    begun: Lines = []  # what stands, or the lines of a mark whose end has not come
    between = 0  # where the second side begins among them; 0 when that has not come
    is_inside = False
    for line in text.splitlines(keepends=True):
        bare = line.rstrip(b"\r\n")
        if bare == first:
            done.append(MergedLines(begun))
            begun, between, is_inside = [], 0, True
        begun.append(line)
        if is_inside and bare == _SEPARATOR_MARKER and not between:
            between = len(begun)
        elif between and bare.startswith(_THEIRS_MARKER):
            done.append(Conflict(begun[1 : between - 1], begun[between:-1]))
            begun, between, is_inside = [], 0, False
    return [*done, MergedLines(begun)]
