r"""Finds a text sent by a model in a file, whatever the file's line ends, and determines the replacement.

A model sends `\n`. In a file with one kind of line end both texts are converted to it, and the search is plain. In a
file with several kinds an exact occurrence comes first; only without one do line ends of any kind match, and the
replacement takes the kind of its place. A line end is never cut in two unless the text contains its `\r`. Occurrences
are counted left to right without overlap. Every search is one pass over the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from toolyard.files.content.text import Newline, with_lf, with_newline

if TYPE_CHECKING:
    from collections.abc import Iterator

SPANS = 50
"""Changed places that are listed separately; the rest are merged into one."""

Span = tuple[int, int]
_PAIR = re.compile(r"\r\n")
_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class UniformReplacement:
    """Every occurrence of `needle` becomes the same `replacement`."""

    needle: str
    replacement: str


@dataclass(frozen=True, slots=True)
class SpanReplacements:
    """Each of `spans` becomes the replacement beside it. Spans are ordered and do not overlap."""

    spans: tuple[Span, ...]
    replacements: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReplaceResult:
    """A text after a replacement: how many places there were, and the spans of the new text (at most SPANS + 1)."""

    text: str
    count: int
    spans: tuple[Span, ...]


def find_matches(text: str, old: str, new: str, newline: Newline) -> UniformReplacement | SpanReplacements:
    """Finds `old` in `text`, whose lines end in `newline`, and what each place becomes. There may be no match."""
    spelled_out = "\r" in old
    if newline == "mixed":
        return _find_mixed(text, old, new, spelled_out=spelled_out)
    if not spelled_out:
        return UniformReplacement(with_newline(old, newline), with_newline(new, newline))
    if old in text:
        return UniformReplacement(old, new)
    return UniformReplacement(with_newline(with_lf(old), newline), with_newline(with_lf(new), newline))


def count_matches(text: str, found: UniformReplacement | SpanReplacements) -> int:
    """Counts the occurrences."""
    return text.count(found.needle) if isinstance(found, UniformReplacement) else len(found.spans)


def positions(text: str, found: UniformReplacement | SpanReplacements) -> Iterator[int]:
    """Yields where the occurrences begin, in order."""
    if isinstance(found, SpanReplacements):
        yield from (start for start, _ in found.spans)
        return
    at = text.find(found.needle)
    while at >= 0:
        yield at
        at = text.find(found.needle, at + len(found.needle))


def length_after(text: str, found: UniformReplacement | SpanReplacements) -> int:
    """Returns the length of the text once all the places are replaced."""
    if isinstance(found, UniformReplacement):
        return len(text) + (len(found.replacement) - len(found.needle)) * text.count(found.needle)
    return len(text) + sum(map(len, found.replacements)) - sum(end - start for start, end in found.spans)


def replace_matches(
    text: str, found: UniformReplacement | SpanReplacements, earlier: tuple[Span, ...]
) -> ReplaceResult:
    """Replaces all the places; `earlier` are spans of former changes, adjusted to the new text."""
    if isinstance(found, UniformReplacement):
        return _replace_uniform(text, found, earlier)
    return _replace_places(text, found, earlier)


def _find_mixed(text: str, old: str, new: str, *, spelled_out: bool) -> SpanReplacements:
    spans = tuple(_exact_spans(text, old, spelled_out=spelled_out))
    if spans and spelled_out:
        return SpanReplacements(spans, (new,) * len(spans))
    if not spans:
        spans = tuple(_any_end_spans(text, with_lf(old)))
        new = with_lf(new) if spelled_out else new
    if "\n" not in new:
        return SpanReplacements(spans, (new,) * len(spans))
    spelled = {end: with_newline(new, end) for end in ("\n", "\r\n", "\r")}
    return SpanReplacements(spans, tuple(spelled[end] for end in _ends_at(text, spans)))


def _exact_spans(text: str, old: str, *, spelled_out: bool) -> Iterator[Span]:
    halves_matter = old.startswith("\n") and not spelled_out
    at = text.find(old)
    while at >= 0:
        if halves_matter and at and text[at - 1] == "\r":
            at = text.find(old, at + 1)
            continue
        yield at, at + len(old)
        at = text.find(old, at + len(old))


def _any_end_spans(text: str, old: str) -> Iterator[Span]:
    r"""Yields the spans in `text` that match `old` when every line end counts as `\n`."""
    flat = with_lf(text)
    at = flat.find(old)
    if at < 0:
        return
    # Each `\r\n` before a place shifts it by one; `pairs` are their positions in the flat text.
    pairs = [match.start() - index for index, match in enumerate(_PAIR.finditer(text))]
    while at >= 0:
        end = at + len(old)
        yield at + bisect_left(pairs, at), end + bisect_left(pairs, end)
        at = flat.find(old, end)


def _ends_at(text: str, spans: tuple[Span, ...]) -> Iterator[str]:
    """Yields the line end that applies at each span: the first in it, else the next, else the last before it."""
    ahead = _END.search(text)
    behind = "\n"
    for start, _ in spans:
        # The search continues from its position, so that all spans together cost one pass.
        while ahead is not None and ahead.start() < start:
            behind = ahead.group()
            ahead = _END.search(text, ahead.end())
        yield ahead.group() if ahead is not None else behind


def _replace_uniform(text: str, found: UniformReplacement, earlier: tuple[Span, ...]) -> ReplaceResult:
    needle, new = found.needle, found.replacement
    growth = len(new) - len(needle)
    places = list(islice(positions(text, found), SPANS + 1))
    spans = [(at + growth * index, at + growth * index + len(new)) for index, at in enumerate(places)]
    total = len(places)
    if total > SPANS:
        total = text.count(needle)
        spans[SPANS] = (spans[SPANS][0], text.rfind(needle) + growth * (total - 1) + len(new))

    def shift(position: int) -> int:
        """Returns the new position of one outside the replaced places; one inside ends up near its place."""
        before = bisect_right(places, position - len(needle))
        if before > SPANS:
            before = text.count(needle, 0, position)
        return position + growth * before

    carried = [(shift(start), shift(end)) for start, end in earlier]
    return ReplaceResult(text.replace(needle, new), total, _merge_spans(spans, carried))


def _replace_places(text: str, found: SpanReplacements, earlier: tuple[Span, ...]) -> ReplaceResult:
    pieces: list[str] = []
    spans: list[Span] = []
    growths = [0]
    done = length = 0
    for (start, end), new in zip(found.spans, found.replacements, strict=True):
        pieces += (text[done:start], new)
        length += start - done
        spans.append((length, length + len(new)))
        length += len(new)
        done = end
        growths.append(length - done)
    pieces.append(text[done:])
    ends = [end for _, end in found.spans]
    moved = [
        (start + growths[bisect_right(ends, start)], end + growths[bisect_right(ends, end)]) for start, end in earlier
    ]
    if len(spans) > SPANS:
        spans[SPANS:] = [(spans[SPANS][0], spans[-1][1])]
    return ReplaceResult("".join(pieces), len(found.spans), _merge_spans(spans, moved))


def _merge_spans(spans: list[Span], moved: list[Span]) -> tuple[Span, ...]:
    """Returns all the spans in order, overlapping ones merged, at most SPANS + 1 of them."""
    if not moved:
        return tuple(spans)
    joined: list[Span] = []
    for start, end in sorted([*spans, *((start, max(start, end)) for start, end in moved)]):
        if joined and (start <= joined[-1][1] or len(joined) > SPANS):
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return tuple(joined)
