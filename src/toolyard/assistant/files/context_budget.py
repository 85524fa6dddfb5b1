"""Fits files into a token budget: whole while there is room, in their order, and the others as outlines.

The sum never exceeds the budget. While files are shown whole, some tokens are reserved for outlines of the rest, so
that one huge file does not hide the others. Everything that is not shown whole is reported with the reason.
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
"""Reserved per file that is not shown yet, while others are shown whole."""
_LEAST_OUTLINE_TOKENS = 80
_OUTLINE_SHARE = 4
"""At most one part in this many of the budget is reserved for outlines."""


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A rendered file or outline."""

    path: str
    digest: str
    text: str
    tokens: int
    is_whole: bool
    is_truncated: bool = False
    """Whether the outline omits some of the file's entries."""


@dataclass(frozen=True, slots=True)
class FittedFiles:
    """The rendered files and what was left out."""

    shown: tuple[ShownFile, ...]
    """In the order of the sources."""
    skipped: tuple[SkippedFile, ...]
    """Files that are not shown, or shown as outlines."""
    tokens: int


def fit_files(sources: Sequence[SourceFile], tokens: int, check_time: Callable[[], None]) -> FittedFiles:
    """Renders as much of the sources as fits into `tokens`."""
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
    """Renders the first sources whole, as many in a row as fit."""
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
    """Renders sources whole while tokens remain for outlines of the others; `known` were rendered already."""
    whole: dict[int, ShownFile] = {}
    left = tokens
    needs = [min(_OUTLINE_TOKENS, len(source.text) + _LEAST_OUTLINE_TOKENS) for source in sources]
    reserved = sum(needs)
    for at, source in enumerate(sources):
        if source.outline_only:
            continue
        room = left - min(reserved - needs[at], tokens // _OUTLINE_SHARE)
        shown = known.get(at) or _render_whole(source, room, check_time)
        if shown is not None and shown.tokens <= room:
            whole[at] = shown
            left -= shown.tokens
            reserved -= needs[at]
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
    """An outline before its tokens are assigned."""

    source: SourceFile
    begin: str
    outline: Outline
    end: str
    around: int
    """Tokens of everything but the outline."""
    tokens: int
    """Total tokens."""
    share: int = 0


def _outline_drafts(
    sources: Sequence[SourceFile], whole: Mapping[int, ShownFile], room: int, check_time: Callable[[], None]
) -> list[tuple[int, _OutlineDraft]]:
    """Returns outlines of all other sources, each with its share: what it needs, or an equal part."""
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
    share = max(share, _LEAST_OUTLINE_TOKENS)  # if that is too much for all of them, the first ones get it
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
    """Returns the first entries that fit, with a line on the rest, and their tokens."""
    used = count_or_estimate_tokens(
        _outline_text(outline.truncate(0))
    )  # its remark on the omitted entries is the longest
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
        return "left out: there is no room for it, not even for its outline"
    why = "the limit of whole files per request is reached" if source.outline_only else "the whole file does not fit"
    more = ", and the outline omits some entries" if outlined.is_truncated else ""
    return f"shown as an outline: {why}{more}"
