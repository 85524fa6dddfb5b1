"""Unified diffs that stay small and quick whatever the texts are."""

from __future__ import annotations

from toolyard.fs.content.text import with_feeds

DIFF_CHARS = 8_000
CONTEXT = 3
_CAREFUL_LINES = 600
"""Between the first and the last change: more lines than this are told as one block, for difflib is quadratic."""
_LINE_CHARS = 500
_NO_END = "\n\\ No newline at end of file"


def unified(
    before: str,
    after: str,
    name: str,
    max_chars: int = DIFF_CHARS,
    *,
    headings: tuple[str, ...] = (),
    context: int = CONTEXT,
) -> str:
    """What changed from `before` to `after`, without telling line ends apart; cut with a note when long.

    `headings` stand above the first hunk; without any they name the file as git does.
    """
    old, new = _lines(before), _lines(after)
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    if head == len(old) == len(new):
        return ""
    start = max(0, head - context)
    keep = max(0, tail - context)
    old, new = old[start : len(old) - keep], new[start : len(new) - keep]
    changed = max(len(old), len(new))
    around = (head - start, tail - keep)
    lines = _careful(old, new, start, around, context) if changed <= _CAREFUL_LINES else _block(old, new, start)
    return _within([*(headings or (f"--- a/{name}", f"+++ b/{name}")), *lines], max_chars)


def _lines(text: str) -> list[str]:
    """The lines of `text`; a last one that has no line end carries the mark that diffs have for it."""
    *lines, rest = with_feeds(text).split("\n")
    return [*lines, rest + _NO_END] if rest else lines


def _common(one: list[str], other: list[str]) -> int:
    """How many lines the two begin with alike."""
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return min(len(one), len(other))


def _careful(old: list[str], new: list[str], start: int, around: tuple[int, int], context: int) -> list[str]:
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
    lines: list[str] = []
    for group in matcher.get_grouped_opcodes(context):
        first, last = group[0], group[-1]
        lines.append(_heading(start + first[1], last[2] - first[1], start + first[3], last[4] - first[3]))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [f" {line}" for line in old[i1:i2]]
                continue
            lines += [f"-{line}" for line in old[i1:i2]]
            lines += [f"+{line}" for line in new[j1:j2]]
    return lines


def _block(old: list[str], new: list[str], start: int) -> list[str]:
    return [
        _heading(start, len(old), start, len(new)),
        *[f"-{line}" for line in old],
        *[f"+{line}" for line in new],
    ]


def _heading(old_start: int, old_count: int, new_start: int, new_count: int) -> str:
    old_first = old_start + 1 if old_count else old_start
    new_first = new_start + 1 if new_count else new_start
    return f"@@ -{old_first},{old_count} +{new_first},{new_count} @@"


def _within(lines: list[str], max_chars: int) -> str:
    kept: list[str] = []
    room = max_chars
    for index, line in enumerate(lines):
        line = line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]}..."
        room -= len(line) + 1
        if room < 0:
            return "\n".join([*kept, f"... [{len(lines) - index} more lines of diff]"])
        kept.append(line)
    return "\n".join(kept)
