"""Giving room to files: each whole while there is room, in their order; then the others as outlines.

The sum never exceeds what was given. While files are shown whole, some room is kept for outlines of the rest, so that
one huge file does not leave the others unseen. What is not shown whole is told, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from toolyard.assistant.files.file_block import boundary_lines, number_lines
from toolyard.assistant.files.outlines import build_outline
from toolyard.assistant.files.regex_outline import Outline
from toolyard.assistant.files.sources import SkippedFile, SourceFile
from toolyard.assistant.files.syntax.outliner import Outliner
from toolyard.core.tokens import count_or_estimate_tokens, count_tokens_in_pieces

_SEPARATOR_TOKENS = 2
"""Tokens between two files."""
_OUTLINE_TOKENS = 400
"""Kept for a file that is not shown yet, while others are shown whole."""
_LEAST_OUTLINE_TOKENS = 80
_OUTLINE_SHARE = 4
"""One part in so many, at most, is kept for them while files are shown whole."""


@dataclass(frozen=True, slots=True)
class ShownFile:
    path: str
    digest: str
    text: str
    tokens: int
    is_whole: bool
    is_truncated: bool = False
    """There is more in the file than its outline tells."""


@dataclass(frozen=True, slots=True)
class FittedFiles:
    shown: tuple[ShownFile, ...]
    """In the order of the sources."""
    skipped: tuple[SkippedFile, ...]
    """What is not shown, and what is shown as an outline."""
    tokens: int


def fit_files(sources: Sequence[SourceFile], tokens: int, check_time: Callable[[], None]) -> FittedFiles:
    """As much of the sources as `tokens` allow."""
    whole = _leading_whole_files(sources, tokens, check_time)
    left = tokens - sum(each.tokens for each in whole.values())
    if len(whole) < len(sources):
        whole = _whole_with_reserve(sources, tokens, whole, check_time)
        left = tokens - sum(each.tokens for each in whole.values())
    shown, skipped = dict(whole), dict[int, SkippedFile]()
    for at, draft in _outline_drafts(sources, whole, left, check_time):
        outlined = _render_outline(draft, min(left, draft.share))
        if outlined is not None:
            shown[at] = outlined
            left -= outlined.tokens
        skipped[at] = SkippedFile(draft.source.path, _skip_reason(draft.source, outlined))
    return FittedFiles(
        tuple(shown[at] for at in sorted(shown)), tuple(skipped.values()), sum(each.tokens for each in shown.values())
    )


def _leading_whole_files(
    sources: Sequence[SourceFile], tokens: int, check_time: Callable[[], None]
) -> dict[int, ShownFile]:
    """The first sources, as many as can be shown whole one after the other."""
    whole: dict[int, ShownFile] = {}
    for at, source in enumerate(sources):
        shown = None if source.outline_only else _render_whole(source, tokens, check_time)
        if shown is None:
            break
        whole[at] = shown
        tokens -= shown.tokens
    return whole


def _whole_with_reserve(
    sources: Sequence[SourceFile], tokens: int, known: dict[int, ShownFile], check_time: Callable[[], None]
) -> dict[int, ShownFile]:
    """Those that can be shown whole while there is room for outlines of the others; `known` were rendered already."""
    whole: dict[int, ShownFile] = {}
    left = tokens
    needs = [min(_OUTLINE_TOKENS, len(source.text) + _LEAST_OUTLINE_TOKENS) for source in sources]
    kept = sum(needs)
    for at, source in enumerate(sources):
        if source.outline_only:
            continue
        room = left - min(kept - needs[at], tokens // _OUTLINE_SHARE)
        shown = known.get(at) or _render_whole(source, room, check_time)
        if shown is not None and shown.tokens <= room:
            whole[at] = shown
            left -= shown.tokens
            kept -= needs[at]
    return whole


def _render_whole(source: SourceFile, room: int, check_time: Callable[[], None]) -> ShownFile | None:
    begin, end = boundary_lines(source, "file")
    used = _SEPARATOR_TOKENS + count_or_estimate_tokens(begin) + count_or_estimate_tokens(end)
    parts = [begin]
    for piece in number_lines(source.text):
        if used > room:
            break
        check_time()
        parts.append(piece)
        used += count_or_estimate_tokens(piece)
    if used > room:
        return None
    return ShownFile(source.path, source.digest, "".join((*parts, end)).rstrip("\n"), used, is_whole=True)


@dataclass(frozen=True, slots=True)
class _OutlineDraft:
    """An outline that has not got its room yet."""

    source: SourceFile
    begin: str
    outline: Outline
    end: str
    around: int
    """Tokens of all but the outline."""
    tokens: int
    """Of all of it."""
    share: int = 0


def _outline_drafts(
    sources: Sequence[SourceFile], whole: Mapping[int, ShownFile], room: int, check_time: Callable[[], None]
) -> list[tuple[int, _OutlineDraft]]:
    """Outlines of all that is not whole, each with its share: what it needs, or as much as any other gets."""
    with Outliner(check_time) as outliner:
        drafts = [
            (at, _outline_draft(source, outliner, check_time)) for at, source in enumerate(sources) if at not in whole
        ]
    share, left = room, room
    for count, needed in zip(range(len(drafts), 0, -1), sorted(draft.tokens for _, draft in drafts), strict=True):
        share = left // count
        if needed > share:
            break
        left -= needed
    share = max(share, _LEAST_OUTLINE_TOKENS)  # where that is too little for all, the first ones get it
    return [(at, replace(draft, share=share)) for at, draft in drafts]


def _outline_draft(source: SourceFile, outliner: Outliner, check_time: Callable[[], None]) -> _OutlineDraft:
    check_time()
    begin, end = boundary_lines(source, "outline of")
    outline = build_outline(outliner, source)
    around = _SEPARATOR_TOKENS + count_or_estimate_tokens(begin) + count_or_estimate_tokens(end)
    return _OutlineDraft(
        source, begin, outline, end, around, around + count_tokens_in_pieces(_outline_text(outline), check_time)
    )


def _render_outline(draft: _OutlineDraft, room: int) -> ShownFile | None:
    outline, tokens = draft.outline, draft.tokens
    if tokens > room:
        outline, taken = _truncate_outline(outline, room - draft.around)
        tokens = draft.around + taken
        if not outline.entries:
            return None
    text = f"{draft.begin}{_outline_text(outline)}{draft.end}".rstrip("\n")
    return ShownFile(
        draft.source.path, draft.source.digest, text, tokens, is_whole=False, is_truncated=outline.is_cut
    )


def _outline_text(outline: Outline) -> str:
    return "".join(f"{line}\n" for line in outline.lines)


def _truncate_outline(outline: Outline, room: int) -> tuple[Outline, int]:
    """The first entries that there is room for, beside a word on the others; and what they take."""
    used = count_or_estimate_tokens(
        _outline_text(outline.truncate(0))
    )  # no other has more to say of what is left out
    count = 0
    for entry in outline.entries:
        tokens = count_or_estimate_tokens(f"{entry}\n")
        if used + tokens > room:
            break
        used += tokens
        count += 1
    return outline.truncate(count), used


def _skip_reason(source: SourceFile, outlined: ShownFile | None) -> str:
    if outlined is None:
        return "left out: there is no room, not even for its outline"
    why = "as many files as one request may have are shown whole" if source.outline_only else "whole it does not fit"
    more = ", and there is more in it than the outline tells" if outlined.is_truncated else ""
    return f"shown as an outline: {why}{more}"
