"""Three-way merge of lines (diff3). Pure, with bounded running time for any input.

Lines of the base are paired with each side. Where a line is paired on both sides, the three versions are in step. The
lines between two such points come from the side that changed them, or are a conflict if both did.

Pairing first matches lines that occur once on each side and keep their order, then uses the shortest edit between
those. It may give up early if the sides have little in common: conflicts become larger, and nothing is lost.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_MAX_STEPS = 1_000_000
"""Steps of one pairing: about half a second."""
_MAX_EDITS = 400
"""Edits between two paired lines. The path is stored, which takes quadratic memory."""

Lines = list[bytes]


@dataclass(frozen=True, slots=True)
class MergedLines:
    """Lines without a conflict."""

    lines: Lines


@dataclass(frozen=True, slots=True)
class Conflict:
    """Lines that both sides changed differently."""

    ours: Lines
    theirs: Lines


def merge_lines(base: Lines, ours: Lines, theirs: Lines) -> Iterator[MergedLines | Conflict]:
    """Yields the merged text in pieces. Swapping the sides swaps the sides of each conflict, and nothing else."""
    in_ours, in_theirs = match_lines(base, ours), match_lines(base, theirs)
    at = our_at = their_at = 0
    for place in range(len(base) + 1):
        is_end = place == len(base)
        our_place = len(ours) if is_end else in_ours[place]
        their_place = len(theirs) if is_end else in_theirs[place]
        if our_place is None or their_place is None:
            continue
        yield from _merge_chunk(base[at:place], ours[our_at:our_place], theirs[their_at:their_place])
        if not is_end:
            yield MergedLines(base[place : place + 1])
        at, our_at, their_at = place + 1, our_place + 1, their_place + 1


def _merge_chunk(base: Lines, ours: Lines, theirs: Lines) -> Iterator[MergedLines | Conflict]:
    if ours in (theirs, base):
        yield from [MergedLines(theirs)] * bool(theirs)
    elif theirs == base:
        yield from [MergedLines(ours)] * bool(ours)
    elif ours <= theirs:  # both orders have to give the same pairs
        yield from _narrow_conflict(ours, theirs)
    else:
        for piece in _narrow_conflict(theirs, ours):
            yield Conflict(piece.theirs, piece.ours) if isinstance(piece, Conflict) else piece


def _narrow_conflict(ours: Lines, theirs: Lines) -> Iterator[MergedLines | Conflict]:
    """Yields a conflict without the lines that both sides share. Blank lines and lone brackets do not split it."""
    pairs = match_lines(ours, theirs)
    at = their_at = place = 0
    while place < len(ours):
        there = pairs[place]
        if there is None:
            place += 1
            continue
        stop = place
        while stop < len(ours) and pairs[stop] == there + stop - place:
            stop += 1
        their_stop = there + stop - place
        is_edge = (place, there) == (0, 0) or (stop, their_stop) == (len(ours), len(theirs))
        if is_edge or any(any(chr(byte).isalnum() for byte in line) for line in ours[place:stop]):
            if place > at or there > their_at:
                yield Conflict(ours[at:place], theirs[their_at:there])
            yield MergedLines(ours[place:stop])
            at, their_at = stop, their_stop
        place = stop
    if len(ours) > at or len(theirs) > their_at:
        yield Conflict(ours[at:], theirs[their_at:])


def match_lines(left: Lines, right: Lines) -> list[int | None]:
    """Returns, for each line on the left, the index of the equal line on the right, or None. Both are in order."""
    numbers: dict[bytes, int] = {}  # numbers are faster to compare than long lines
    sides = _LineMatcher(*([numbers.setdefault(line, len(numbers)) for line in side] for side in (left, right)))
    return sides.match_all()


@dataclass(frozen=True, slots=True)
class _Gap:
    """Lines `first` to `last` on the left and `start` to `stop` on the right that are not yet paired."""

    first: int
    last: int
    start: int
    stop: int


class _LineMatcher:
    """Pairs equal lines of two sequences of line numbers."""

    def __init__(self, left: list[int], right: list[int]) -> None:
        self._left = left
        self._right = right
        self._pairs: list[int | None] = [None] * len(left)
        self._steps = _MAX_STEPS

    def match_all(self) -> list[int | None]:
        waiting = [_Gap(0, len(self._left), 0, len(self._right))]
        while waiting and self._steps > 0:
            gap = self._pair_common_ends(waiting.pop())
            if gap.first == gap.last or gap.start == gap.stop:
                continue
            self._steps -= gap.last - gap.first + gap.stop - gap.start
            found = self._match_unique_lines(gap)
            if found:
                waiting += self._split_gap(gap, found)
            else:
                found = self._match_by_shortest_edit(gap)
            for place, there in found:
                self._pairs[place] = there
        return self._pairs

    def _pair_common_ends(self, gap: _Gap) -> _Gap:
        """Pairs the equal lines at both ends of the gap and returns what is left of it."""
        left, right = self._left, self._right
        first, last, start, stop = gap.first, gap.last, gap.start, gap.stop
        while first < last and start < stop and left[first] == right[start]:
            self._pairs[first] = start
            first, start = first + 1, start + 1
        while first < last and start < stop and left[last - 1] == right[stop - 1]:
            last, stop = last - 1, stop - 1
            self._pairs[last] = stop
        return _Gap(first, last, start, stop)

    def _split_gap(self, gap: _Gap, found: list[tuple[int, int]]) -> Iterator[_Gap]:
        first, start = gap.first, gap.start
        for place, there in [*found, (gap.last, gap.stop)]:
            if place > first and there > start:
                yield _Gap(first, place, start, there)
            first, start = place + 1, there + 1

    def _match_unique_lines(self, gap: _Gap) -> list[tuple[int, int]]:
        """Returns the largest set of lines that occur once on each side, in the same order."""
        left, right = self._left[gap.first : gap.last], self._right[gap.start : gap.stop]
        counts, their_counts = Counter(left), Counter(right)
        where = {line: there for there, line in enumerate(right, gap.start) if their_counts[line] == 1}
        both = [
            (place, where[line]) for place, line in enumerate(left, gap.first) if counts[line] == 1 and line in where
        ]
        return _longest_increasing_run(both)

    def _match_by_shortest_edit(self, gap: _Gap) -> list[tuple[int, int]]:
        """Returns the pairs of Myers' greedy algorithm, or none if it takes too many edits."""
        left, right = self._left[gap.first : gap.last], self._right[gap.start : gap.stop]
        ends = {1: 0}  # by diagonal: the furthest position on the left after this many edits
        past: list[dict[int, int]] = []
        for edits in range(min(len(left) + len(right), _MAX_EDITS) + 1):
            past.append(ends.copy())
            for diagonal in range(-edits, edits + 1, 2):
                begun = place = _furthest_reach(ends, diagonal, edits)
                there = place - diagonal
                while place < len(left) and there < len(right) and left[place] == right[there]:
                    place, there = place + 1, there + 1
                ends[diagonal] = place
                self._steps -= 1 + place - begun
                if place >= len(left) and there >= len(right):
                    pairs = _backtrack_pairs(past, place, there)
                    return [(gap.first + one, gap.start + other) for one, other in pairs]
            if self._steps <= 0:
                break
        return []


def _furthest_reach(ends: dict[int, int], diagonal: int, edits: int) -> int:
    """Returns where one more edit leads on a diagonal: inserting a line of the right, or deleting one of the left."""
    if diagonal == -edits or (diagonal != edits and ends[diagonal - 1] < ends[diagonal + 1]):
        return ends[diagonal + 1]
    return ends[diagonal - 1] + 1


def _backtrack_pairs(past: list[dict[int, int]], place: int, there: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for edits in range(len(past) - 1, -1, -1):
        diagonal = place - there
        begun = _furthest_reach(past[edits], diagonal, edits)
        while place > begun:
            place, there = place - 1, there - 1
            pairs.append((place, there))
        came_from_above = begun == past[edits].get(diagonal + 1)
        if edits:
            place, there = (begun, there - 1) if came_from_above else (begun - 1, there)
    return pairs[::-1]


def _longest_increasing_run(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the longest subsequence of pairs that increases on the right. On the left it already does."""
    tops: list[int] = []
    heads: list[int] = []
    before: list[int] = []
    for at, (_, there) in enumerate(pairs):
        length = bisect_left(tops, there)
        before.append(heads[length - 1] if length else -1)
        tops[length : length + 1] = [there]
        heads[length : length + 1] = [at]
    found: list[tuple[int, int]] = []
    at = heads[-1] if heads else -1
    while at >= 0:
        found.append(pairs[at])
        at = before[at]
    return found[::-1]
