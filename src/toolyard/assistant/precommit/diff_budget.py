"""Fits the change into a token budget: short files whole, the beginning of long ones, and a count of the rest.

Each file gets the same share, and what short ones leave goes to the long ones. If the share is too small to be
useful, the first files get it. What is left out is reported to the model and to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from toolyard.assistant.precommit.findings import LINE_CUT, FileChange
from toolyard.assistant.precommit.numbered_diff import number_diff_lines
from toolyard.assistant.precommit.report import change_title
from toolyard.core.tokens import count_or_estimate_tokens
from toolyard.snapshots.service.format import pluralize

_LEAST_TOKENS = 400
"""Per file, about thirty lines: if the share is smaller, fewer files are shown."""
_REST_TOKENS = 20
"""Tokens of the remark on omitted lines, per file or for all."""
_CHECK_EVERY = 1_000
_HUNK = "@@"


@dataclass(frozen=True, slots=True)
class FittedDiff:
    """A rendered diff, and what was left out."""

    text: str
    lines: int
    """Number of diff lines that are shown."""
    total_lines: int
    long_lines: int
    """Number of shown lines that are truncated."""
    truncated_files: tuple[str, ...]
    """Files of which only the beginning is shown."""
    omitted_files: tuple[str, ...]
    """Files of which nothing is shown."""


@dataclass(frozen=True, slots=True)
class _ChangeDraft:
    """A rendered change before its tokens are assigned."""

    change: FileChange
    lines: tuple[str, ...]
    """Its title, and its diff or why there is none."""
    costs: tuple[int, ...]
    """Tokens of the lines, up to the whole budget."""

    @property
    def tokens(self) -> int:
        """Total tokens; more than the budget for a change that exceeds it."""
        return self.cost(len(self.lines))

    @property
    def total_lines(self) -> int:
        return 0 if self.change.withheld else len(self.lines) - 1 + self.change.left_out

    def omitted_lines(self, count: int) -> int:
        """Returns how many diff lines are left out if `count` lines are shown."""
        return len(self.lines) - count + self.change.left_out

    def cost(self, count: int) -> int:
        return sum(self.costs[:count]) + (_REST_TOKENS if count and self.omitted_lines(count) else 0)

    def lines_within(self, room: int) -> int:
        """Returns how many lines fit; 0 if they would show nothing of the change."""
        if self.tokens <= room:
            return len(self.lines)
        room -= _REST_TOKENS
        count = 0
        for cost in self.costs:
            room -= cost
            if room < 0:
                break
            count += 1
        return count if any(line.startswith(_HUNK) for line in self.lines[: max(count - 1, 0)]) else 0


def fit_diff(changes: Sequence[FileChange], tokens: int, check_time: Callable[[], None]) -> FittedDiff:
    """Renders as much of the changes as fits into `tokens`. `check_time` is called repeatedly and may raise."""
    drafts = [_draft_change(change, tokens, check_time) for change in changes]
    shown = list(zip(drafts, _line_counts(drafts, tokens), strict=True))
    lines = [line for draft, count in shown for line in _shown_lines(draft, count)]
    if unseen := [draft.total_lines for draft, count in shown if not count]:
        lines.append(
            f"[... {pluralize(len(unseen), 'more change')} with {pluralize(sum(unseen), 'line')}, not shown]"
        )
    seen = {draft.change.path for draft, count in shown if count}
    lacking = [draft.change.path for draft, count in shown if draft.total_lines and draft.omitted_lines(count)]
    return FittedDiff(
        "\n".join(lines),
        sum(count - 1 for draft, count in shown if count and draft.total_lines),
        sum(draft.total_lines for draft in drafts),
        sum(line.endswith(LINE_CUT) for line in lines),
        tuple(dict.fromkeys(path for path in lacking if path in seen)),
        tuple(dict.fromkeys(path for path in lacking if path not in seen)),
    )


def _draft_change(change: FileChange, tokens: int, check_time: Callable[[], None]) -> _ChangeDraft:
    body = [f"[not shown: {change.withheld}]"] if change.withheld else [*number_diff_lines(change.diff)]
    lines = (f"=== {change_title(change)}", *body)
    costs: list[int] = []
    total = 0
    for at, line in enumerate(lines):
        if not at % _CHECK_EVERY:
            check_time()
        costs.append(count_or_estimate_tokens(line) + 1)
        total += costs[-1]
        if total > tokens:
            break
    return _ChangeDraft(change, lines, tuple(costs))


def _line_counts(drafts: Sequence[_ChangeDraft], tokens: int) -> Iterator[int]:
    """Yields how many lines of each change are shown."""
    needed = [draft.tokens for draft in drafts]
    left = tokens if sum(needed) <= tokens else tokens - _REST_TOKENS
    share = max(_fair_share(needed, left), _LEAST_TOKENS)
    for draft in drafts:
        count = draft.lines_within(min(share, left))
        left -= draft.cost(count)
        yield count


def _fair_share(needed: Sequence[int], tokens: int) -> int:
    """Returns the limit per change with which all together take no more than `tokens`."""
    left = tokens
    for number, each in enumerate(sorted(needed)):
        most = left // (len(needed) - number)
        if each > most:
            return most
        left -= each
    return max(needed, default=0)


def _shown_lines(draft: _ChangeDraft, count: int) -> Iterator[str]:
    if not count:
        return
    yield from draft.lines[:count]
    if rest := draft.omitted_lines(count):
        yield f"[... {rest:,} more {'line' if rest == 1 else 'lines'} of this change]"
