"""Writes conflict markers into a text and finds markers that are still unresolved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from toolyard.sharing.diff3 import Conflict, Lines, MergedLines

_OURS_MARKER, _SEPARATOR_MARKER, _THEIRS_MARKER = b"<<<<<<< ", b"=======", b">>>>>>> "


class Side(StrEnum):
    """The two sides of a merge."""

    OURS = "ours"
    THEIRS = "theirs"

    def lines_of(self, conflict: Conflict) -> Lines:
        """Returns this side's lines of a conflict."""
        return conflict.ours if self is Side.OURS else conflict.theirs


@dataclass(frozen=True, slots=True)
class SideNames:
    """The names of both sides, as the markers show them."""

    ours: str
    theirs: str


def render_merge(
    pieces: Iterable[MergedLines | Conflict], names: SideNames, ending: bytes, prefer: Side | None
) -> bytes:
    """Returns the merged text. Conflicts are marked, or resolved to the preferred side."""
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
    """Splits a text into its marked conflicts of the agent `ours` and the lines between. Incomplete markers are
    ignored.
    """
    first = _OURS_MARKER + ours.encode()
    done: list[MergedLines | Conflict] = []
    begun: Lines = []  # ordinary lines, or those of a conflict whose end marker is still missing
    between = 0  # index of the second side in `begun`; 0 before its separator
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
