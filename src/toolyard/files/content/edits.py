"""The engine behind Edit and MultiEdit: replacements in a file's bytes, all of them or none.

Each step works on the result of the previous one. The text to replace must occur exactly once unless the step has
`replace_all`; `text_match` defines what counts as an occurrence. The text is decoded and encoded by a lossless,
stateless codec (see `text`), so bytes outside the replaced places never change. An empty `old` writes the first
content of an empty file, and is refused elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from toolyard.core.limits import DEFAULT_LIMITS, Limits
from toolyard.files.content import edit_errors, text_match
from toolyard.files.content.diffs import DIFF_CHARS, unified_diff
from toolyard.files.content.text import (
    Newline,
    decode,
    encode,
    line_at,
    lines_around,
    newline_of,
    number_lines,
    with_lf,
    with_newline,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolyard.files.content.text import TextFile

SNIPPET_LINES = 20
SNIPPET_CONTEXT = 4
SNIPPET_LINE_CHARS = 500


@dataclass(frozen=True, slots=True)
class EditStep:
    """Replaces `old` by `new`: in its one place, or everywhere."""

    old: str
    new: str
    replace_all: bool = False


@dataclass(frozen=True, slots=True)
class LineRange:
    """Lines `first` to `last`, 1-based, both included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class EditOutcome:
    """A file after its edits. Line numbers refer to the new content."""

    data: bytes
    replacements: tuple[int, ...]
    """How many places each step replaced."""
    changed: tuple[LineRange, ...]
    """The lines of the new text; with too many places the last range covers the rest."""
    snippet: str
    """The lines around the first change, with their numbers."""
    encoding: str
    newline: Newline
    before: str = field(repr=False)
    after: str = field(repr=False)

    def diff(self, name: str, max_chars: int = DIFF_CHARS) -> str:
        """Returns the changes as a unified diff of at most about `max_chars`. Computed on demand."""
        return unified_diff(self.before, self.after, name, max_chars)


def apply_edits(data: bytes, edits: Sequence[EditStep], *, limits: Limits = DEFAULT_LIMITS) -> EditOutcome:
    """Applies all `edits` to `data`, in order. Raises ToolError or ValidationError, and then nothing is changed."""
    if not edits:
        raise edit_errors.no_edits()
    file = decode(data)
    spans: tuple[text_match.Span, ...] = ()
    counts: list[int] = []
    after = file
    for index, step in enumerate(edits):
        at = edit_errors.EditPosition(index + 1, len(edits))
        change = _apply_step(after, step, file.text, spans, at, limits=limits)
        after = replace(after, text=change.text, newline=_newline_after(change.text, step, after))
        spans = change.spans
        counts.append(change.count)
    encoded = encode(after)
    if len(encoded) > limits.file_bytes:
        raise edit_errors.too_large(limits.file_bytes, edit_errors.EditPosition(len(edits), len(edits)))
    changed = _line_ranges(after, spans)
    shown = after.printable
    return EditOutcome(
        data=encoded,
        replacements=tuple(counts),
        changed=changed,
        snippet=_snippet(shown, after.newline, min(spans)[0], changed[0]),
        encoding=file.encoding,
        newline=after.newline,
        before=file.printable,
        after=shown,
    )


def _newline_after(text: str, step: EditStep, before: TextFile) -> Newline:
    r"""Returns the line end after a step. Unless the step contains a `\r`, it keeps the current one."""
    keeps_newline = before.newline != "mixed" and "\r" not in step.old and "\r" not in step.new
    return before.newline if keeps_newline else newline_of(text)


def _apply_step(
    file: TextFile,
    step: EditStep,
    original: str,
    spans: tuple[text_match.Span, ...],
    at: edit_errors.EditPosition,
    *,
    limits: Limits,
) -> text_match.ReplaceResult:
    text = file.text
    if step.old == step.new:
        raise edit_errors.same_text(at)
    try:
        step.new.encode(file.encoding)
    except UnicodeEncodeError as error:
        raise edit_errors.not_encodable(step.new[error.start], file.encoding, at) from None
    if not step.old:
        if text:
            raise edit_errors.empty_old(at)
        # An earlier step may have emptied the file: its line ends are kept anyway.
        new = step.new if file.newline == "mixed" or "\r" in step.new else with_newline(step.new, file.newline)
        return text_match.ReplaceResult(new, 1, ((0, len(new)),))
    found = text_match.find_matches(text, step.old, step.new, file.newline)
    places = text_match.positions(text, found)
    first = next(places, None)
    if first is None:
        raise edit_errors.not_found(file, original, (step.old, step.new), at)
    if not step.replace_all and next(places, None) is not None:
        raise edit_errors.ambiguous(file, found, at)
    if isinstance(found, text_match.UniformReplacement) and not step.replace_all and not spans:
        # The common case. `replace` copies the text once, where slicing and joining would copy it three times.
        end = first + len(found.replacement)
        return text_match.ReplaceResult(text.replace(found.needle, found.replacement, 1), 1, ((first, end),))
    # Checked before replacing: a short text in very many places can exhaust the memory.
    if text_match.length_after(text, found) > limits.file_bytes:
        raise edit_errors.too_large(limits.file_bytes, at)
    return text_match.replace_matches(text, found, spans)


def _line_ranges(file: TextFile, spans: tuple[text_match.Span, ...]) -> tuple[LineRange, ...]:
    ranges: list[LineRange] = []
    known = (0, 1)
    for start, end in spans:
        first = line_at(file.text, start, file.newline, known=known)
        last_char = max(start, end - 1)
        last = line_at(file.text, last_char, file.newline, known=(start, first))
        known = (last_char, last)
        if ranges and first <= ranges[-1].last + 1:
            ranges[-1] = LineRange(ranges[-1].first, max(last, ranges[-1].last))
        else:
            ranges.append(LineRange(first, last))
    return tuple(ranges)


def _snippet(text: str, newline: Newline, position: int, changed: LineRange) -> str:
    """Returns the lines around the first change, which begins at `position`, numbered."""
    if newline in {"\r", "mixed"}:
        position -= text.count("\r\n", 0, position)
        text = with_lf(text)
    wanted = 2 * SNIPPET_CONTEXT + changed.last - changed.first + 1
    above, lines = lines_around(text, position, SNIPPET_CONTEXT, min(SNIPPET_LINES, wanted))
    return number_lines(lines, changed.first - above, SNIPPET_LINE_CHARS)
