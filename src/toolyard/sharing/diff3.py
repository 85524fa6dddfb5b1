"""Three versions of a text's lines made one: diff3. Pure, and bounded in time whatever the lines are.

Lines are paired between the base and either side. Where a line of the base is paired on both, the three are in step;
what lies between two such places is taken from the side that changed it, or is a conflict when both did.

Pairing first takes lines that occur once on either side and keep their order, then the shortest edit between those.
It may give up early when the sides have little in common: that makes conflicts larger, and loses nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_MAX_STEPS = 1_000_000
"""Of one pairing: about half a second."""
_MAX_EDITS = 400
"""Between two paired lines; the way there is remembered, which takes memory in the square of it."""

Lines = list[bytes]


@dataclass(frozen=True, slots=True)
class MergedLines:
    lines: Lines


@dataclass(frozen=True, slots=True)
class Conflict:
    ours: Lines
    theirs: Lines


def merge_lines(base: Lines, ours: Lines, theirs: Lines) -> Iterator[MergedLines | Conflict]:
    """The merged text, piece by piece. Exchanging the sides exchanges those of its conflicts, and nothing else."""
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
    elif ours <= theirs:  # either order has to give the same pairs
        yield from _narrow_conflict(ours, theirs)
    else:
        for piece in _narrow_conflict(theirs, ours):
            yield Conflict(piece.theirs, piece.ours) if isinstance(piece, Conflict) else piece


def _narrow_conflict(ours: Lines, theirs: Lines) -> Iterator[MergedLines | Conflict]:
    """A conflict without what both sides have alike, but not torn apart by lines that are blank or mere brackets."""
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
    """For each line on the left, the one on the right that it is; both in order."""
    numbers: dict[bytes, int] = {}  # comparing long lines over and over would take long
    sides = _LineMatcher(*([numbers.setdefault(line, len(numbers)) for line in side] for side in (left, right)))
    return sides.match_all()


@dataclass(frozen=True, slots=True)
class _Gap:
    """Lines `first` to `last` on the left, `start` to `stop` on the right, whose pairs are not yet known."""

    first: int
    last: int
    start: int
    stop: int


class _LineMatcher:
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
        """The gap without what is alike at its ends, which is paired."""
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
        """The most lines that occur once on either side and stand in the same order there."""
        left, right = self._left[gap.first : gap.last], self._right[gap.start : gap.stop]
        counts, their_counts = Counter(left), Counter(right)
        where = {line: there for there, line in enumerate(right, gap.start) if their_counts[line] == 1}
        both = [
            (place, where[line]) for place, line in enumerate(left, gap.first) if counts[line] == 1 and line in where
        ]
        return _longest_increasing_run(both)

    def _match_by_shortest_edit(self, gap: _Gap) -> list[tuple[int, int]]:
        """Pairs of Myers' greedy algorithm; none when it takes too many edits."""
        left, right = self._left[gap.first : gap.last], self._right[gap.start : gap.stop]
        ends = {1: 0}  # by diagonal, how far on the left so many edits lead
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
    """Where one more edit leads on a diagonal: a line of the right put in, or one of the left taken out."""
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
    """The longest run of pairs, rising on the left already, that rises on the right too."""
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
