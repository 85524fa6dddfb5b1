"""Diffs of bounded size and cost: as hunks for programs, and as unified text."""

from __future__ import annotations

from dataclasses import dataclass

from toolyard.files.content.text import with_lf

DIFF_CHARS = 8_000
CONTEXT = 3
_CAREFUL_LINES = 600
"""More lines than this between the first and the last change become one block, because difflib is quadratic."""
_LINE_CHARS = 500
_NO_END = "\n\\ No newline at end of file"


@dataclass(frozen=True, slots=True)
class Hunk:
    """One changed place. Lines are counted from 1; `lines` begin with a blank, `-`, `+` or a backslash.

    If one side has no lines, its start is the line that would come next.
    """

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    lines: tuple[str, ...]


def hunks(before: str, after: str, context: int = CONTEXT) -> list[Hunk]:
    """Returns the changes from `before` to `after`, ignoring kinds of line ends."""
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
    """Returns the changes from `before` to `after` as a unified diff; a long one is cut, with a note.

    `headings` precede the first hunk; the default names the file as git does.
    """
    found = hunks(before, after, context)
    if not found:
        return ""
    lines = [line for hunk in found for line in (_hunk_header(hunk), *hunk.lines)]
    return _cut_lines([*(headings or (f"--- a/{name}", f"+++ b/{name}")), *lines], max_chars)


def _lines(text: str) -> list[str]:
    """Splits `text` into lines; a last one without a line end gets the mark that diffs use for it."""
    *lines, rest = with_lf(text).split("\n")
    return [*lines, rest + _NO_END] if rest else lines


def _common_prefix(one: list[str], other: list[str]) -> int:
    """Counts the equal lines at the beginning."""
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return min(len(one), len(other))


def _aligned_hunks(old: list[str], new: list[str], start: int, around: tuple[int, int], context: int) -> list[Hunk]:
    """Aligns the lines with difflib. `around` is how many lines both begin and end with: only the rest is compared.

    Otherwise an added line could be reported after the last line shown, as if the file ended there.
    """
    from difflib import SequenceMatcher

    lead, trail = around
    between = SequenceMatcher(None, old[lead : len(old) - trail], new[lead : len(new) - trail], autojunk=False)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    # Where difflib caches its result; typeshed does not declare it.
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
    """Builds a hunk. `old` and `new` are half-open ranges of line indices, equal where there are no lines."""
    # The mark for a missing line end is a line of its own in the hunk.
    parts = tuple(part for line in lines for part in line.split("\n"))
    return Hunk(old[0] + 1, old[1] - old[0], new[0] + 1, new[1] - new[0], parts)


def _hunk_header(hunk: Hunk) -> str:
    # Without lines on a side, the format names the line before.
    old, new = hunk.old_start - (not hunk.old_lines), hunk.new_start - (not hunk.new_lines)
    return f"@@ -{old},{hunk.old_lines} +{new},{hunk.new_lines} @@"


def _cut_lines(lines: list[str], max_chars: int) -> str:
    fitting: list[str] = []
    room = max_chars
    for index, line in enumerate(lines):
        line = line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]}..."
        room -= len(line) + 1
        if room < 0:
            return "\n".join([*fitting, f"... [{len(lines) - index} more lines of diff]"])
        fitting.append(line)
    return "\n".join(fitting)
