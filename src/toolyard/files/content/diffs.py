"""Diffs that stay small and quick whatever the texts are: as hunks for programs, and as unified text."""

from __future__ import annotations

from dataclasses import dataclass

from toolyard.files.content.text import with_lf

DIFF_CHARS = 8_000
CONTEXT = 3
_CAREFUL_LINES = 600
"""Between the first and the last change: more lines than this are told as one block, for difflib is quadratic."""
_LINE_CHARS = 500
_NO_END = "\n\\ No newline at end of file"


@dataclass(frozen=True, slots=True)
class Hunk:
    """One place that changed. Lines are counted from 1; `lines` begin with a blank, `-`, `+` or a backslash.

    Where there are no lines on one side, its start is the line that would come next.
    """

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    lines: tuple[str, ...]


def hunks(before: str, after: str, context: int = CONTEXT) -> list[Hunk]:
    """What changed from `before` to `after`, without telling line ends apart."""
    old, new = _lines(before), _lines(after)
    head = _common_prefix(old, new)
    tail = _common_prefix(old[head:][::-1], new[head:][::-1])
    if head == len(old) == len(new):
        return []
    start = max(0, head - context)
    keep = max(0, tail - context)
    old, new = old[start : len(old) - keep], new[start : len(new) - keep]
    changed = max(len(old), len(new))
    around = (head - start, tail - keep)
    return (
        _aligned_hunks(old, new, start, around, context)
        if changed <= _CAREFUL_LINES
        else [_block_hunk(old, new, start)]
    )


def unified_diff(
    before: str,
    after: str,
    name: str,
    max_chars: int = DIFF_CHARS,
    *,
    headings: tuple[str, ...] = (),
    context: int = CONTEXT,
) -> str:
    """What changed from `before` to `after` as a unified diff; cut with a note when long.

    `headings` stand above the first hunk; without any they name the file as git does.
    """
    found = hunks(before, after, context)
    if not found:
        return ""
    lines = [line for hunk in found for line in (_hunk_header(hunk), *hunk.lines)]
    return _cut_lines([*(headings or (f"--- a/{name}", f"+++ b/{name}")), *lines], max_chars)


def _lines(text: str) -> list[str]:
    """The lines of `text`; a last one that has no line end carries the mark that diffs have for it."""
    *lines, rest = with_lf(text).split("\n")
    return [*lines, rest + _NO_END] if rest else lines


def _common_prefix(one: list[str], other: list[str]) -> int:
    """How many lines the two begin with alike."""
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return min(len(one), len(other))


def _aligned_hunks(old: list[str], new: list[str], start: int, around: tuple[int, int], context: int) -> list[Hunk]:
    """`around` is how many lines both begin and end with: only what lies between is to be paired.

    Otherwise a line could be told as added behind the last one that is shown, as if the file ended there.
    """
    from difflib import SequenceMatcher

    lead, trail = around
    between = SequenceMatcher(None, old[lead : len(old) - trail], new[lead : len(new) - trail], autojunk=False)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    # Where it keeps what it has worked out; typeshed does not tell of it.
    matcher.opcodes = [  # pyright: ignore[reportAttributeAccessIssue]
        *([("equal", 0, lead, 0, lead)] if lead else []),
        *((tag, i1 + lead, i2 + lead, j1 + lead, j2 + lead) for tag, i1, i2, j1, j2 in between.get_opcodes()),
        *([("equal", len(old) - trail, len(old), len(new) - trail, len(new))] if trail else []),
    ]
    found: list[Hunk] = []
    for group in matcher.get_grouped_opcodes(context):
        lines: list[str] = []
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [f" {line}" for line in old[i1:i2]]
                continue
            lines += [f"-{line}" for line in old[i1:i2]]
            lines += [f"+{line}" for line in new[j1:j2]]
        first, last = group[0], group[-1]
        found.append(_hunk((start + first[1], start + last[2]), (start + first[3], start + last[4]), lines))
    return found


def _block_hunk(old: list[str], new: list[str], start: int) -> Hunk:
    lines = [*[f"-{line}" for line in old], *[f"+{line}" for line in new]]
    return _hunk((start, start + len(old)), (start, start + len(new)), lines)


def _hunk(old: tuple[int, int], new: tuple[int, int], lines: list[str]) -> Hunk:
    """`old` and `new` are the lines before the first one and those before the end, so equal where there are none."""
    # A file that ends without a line end says so in a line of the hunk.
    parts = tuple(part for line in lines for part in line.split("\n"))
    return Hunk(old[0] + 1, old[1] - old[0], new[0] + 1, new[1] - new[0], parts)


def _hunk_header(hunk: Hunk) -> str:
    # The format names the line before, where there are none.
    old, new = hunk.old_start - (not hunk.old_lines), hunk.new_start - (not hunk.new_lines)
    return f"@@ -{old},{hunk.old_lines} +{new},{hunk.new_lines} @@"


def _cut_lines(lines: list[str], max_chars: int) -> str:
    kept: list[str] = []
    room = max_chars
    for index, line in enumerate(lines):
        line = line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]}..."
        room -= len(line) + 1
        if room < 0:
            return "\n".join([*kept, f"... [{len(lines) - index} more lines of diff]"])
        kept.append(line)
    return "\n".join(kept)
