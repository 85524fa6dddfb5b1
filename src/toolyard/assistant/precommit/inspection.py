"""The part of precommit that needs no model: collects what a commit would contain, and checks it.

`inspect_changes` only reads. Its verdict is deterministic: no-go if any check failed or there is nothing to commit.
Warnings are for the reader. A model's review may turn a go into a no-go, never the other way round.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from toolyard.assistant.precommit import binaries, debug_markers, repository
from toolyard.assistant.precommit import report as precommit_report
from toolyard.assistant.precommit.affected_tests import check_affected_tests
from toolyard.assistant.precommit.changes import CollectedChanges, collect_changes
from toolyard.assistant.precommit.deadline import INSPECTION_SECONDS, Deadline, OutOfTime
from toolyard.assistant.precommit.diff_budget import FittedDiff, fit_diff
from toolyard.assistant.precommit.documentation import check_documentation
from toolyard.assistant.precommit.findings import Check, CheckDetail, CheckOutcome, FileChange
from toolyard.assistant.precommit.git import Git
from toolyard.assistant.precommit.lint_check import lint_changes
from toolyard.assistant.precommit.secrets import SecretScan, mask_text
from toolyard.assistant.precommit.word_search import CommitTree
from toolyard.core.errors import FieldError, ValidationError
from toolyard.dispatch.call_context import CallContext

Verdict = Literal["go", "no-go"]
_MOST_DETAILS = 100
_HIDDEN = "a rule hides it"
_UNCHECKED = "there was no time to scan it for secrets"
_NO_TIME = "was not checked, because the time was up: split the commit"
_UNSEEN = "is hidden by a rule: the file on disk was not inspected"


@dataclass(frozen=True, slots=True)
class Inspection:
    """Changes, checks and verdict of an inspection."""

    branch: str
    """Empty if HEAD is detached."""
    head: str
    """Empty before the first commit."""
    changes: tuple[FileChange, ...]
    checks: tuple[Check, ...]
    verdict: Verdict
    reasons: tuple[str, ...]
    is_complete: bool = True
    """Whether the whole change was inspected."""

    @property
    def lines_of(self) -> Mapping[str, int]:
        """The files that a finding may be about, with the last line that the change shows of each."""
        found: dict[str, int] = {}
        for change in self.changes:
            found[change.path] = max(found.get(change.path, 0), change.last_line)
        return found

    def touches(self, path: str, line: int) -> bool:
        """Whether the change adds or rewrites the line; True for line 0, which means the whole file."""
        return not line or any(
            line == number for change in self.changes if change.path == path for number, _ in change.added
        )

    def render_report(self) -> str:
        """Renders changes and checks, without a verdict, which would influence a model."""
        return precommit_report.render_report(self.branch, self.head, self.changes, self.checks)

    def render_diff(self, tokens: int, check_time: Callable[[], None] = lambda: None) -> FittedDiff:
        """Renders the change for a model in at most `tokens` tokens, without secrets."""
        return fit_diff(self.changes, tokens, check_time)


def inspect_changes(
    ctx: CallContext,
    path: str,
    *,
    include_staged: bool = True,
    include_unstaged: bool = True,
    seconds: float = INSPECTION_SECONDS,
    check_rate: Callable[[], None] = lambda: None,
) -> Inspection:
    """Inspects what would be committed in the repository whose root is `path`. Untracked files count as unstaged.

    `check_rate` is called once there is a repository, before any work is done, and may raise. What could not be
    checked within `seconds` counts against the commit.
    """
    if not include_staged and not include_unstaged:
        fields = tuple(
            FieldError(name, "is false, and so is the other") for name in ("include_staged", "include_unstaged")
        )
        raise ValidationError("There is nothing to inspect.", fields, hint="Set one of the two.")
    deadline = Deadline.after(ctx, seconds)
    found_repository = repository.find_repository(ctx, path)
    check_rate()
    git = Git.for_repository(deadline, found_repository)
    found = collect_changes(git, staged=include_staged, unstaged=include_unstaged)
    changes = _hide_denied_content(ctx, git.repository.root, found)
    scan = SecretScan(deadline.check)
    if not changes and not found.failed:
        checks = (_displayable_check(Check.from_details("git", warned=tuple(found.warned))),)
        return Inspection(
            _display_name(found.branch), found.head, (), checks, "no-go", ("There is nothing to commit.",)
        )
    changes, unseen = binaries.read_binaries(git, changes)
    clean = tuple(_scan_change(scan, change) for change in changes)
    shown = [change for change, masked in zip(changes, clean, strict=True) if not masked.withheld]
    tree, check_time = CommitTree(git, is_index=not include_unstaged), deadline.check
    warned = (*found.warned, *debug_markers.submodule_warnings(changes))
    checks = (
        Check.from_details("git", failed=tuple(found.failed), warned=warned),
        _run_check("conflicts", lambda: debug_markers.check_conflicts(changes, check_time)),
        scan.to_check(),
        _run_check("debugging", lambda: debug_markers.check_debug_markers(changes, check_time)),
        Check.from_details("binaries", failed=tuple(unseen.failed), warned=tuple(unseen.warned)),
        _run_check("docs", lambda: check_documentation(shown, tree, check_time)),
        _run_check("tests", lambda: check_affected_tests(changes, tree, check_time)),
        _run_check(
            "lint", lambda: lint_changes(deadline, found_repository.root, clean, staged_only=not include_unstaged)
        ),
    )
    checks = tuple(_displayable_check(check) for check in checks)
    reasons = tuple(_failure_reason(check) for check in checks if check.outcome is CheckOutcome.FAILED)
    verdict = "no-go" if reasons else "go"
    is_whole = not found.failed and all(change.withheld != _UNCHECKED for change in clean)
    return Inspection(_display_name(found.branch), found.head, clean, checks, verdict, reasons, is_whole)


def _scan_change(scan: SecretScan, change: FileChange) -> FileChange:
    try:
        masked = scan.mask_change(change)
    except OutOfTime:
        scan.failed.append(CheckDetail(change.path, 0, _NO_TIME))
        masked = replace(change, added=(), removed=(), diff="", withheld=_UNCHECKED)
    return replace(masked, path=_display_name(masked.path), old_path=_display_name(masked.old_path))


def _run_check(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except OutOfTime:
        return Check.from_details(name, failed=(CheckDetail("", 0, _NO_TIME),))


def _hide_denied_content(ctx: CallContext, root: str, found: CollectedChanges) -> list[FileChange]:
    """Returns the changes, without the content of files that a rule hides.

    On disk git sees the mount that covers a hidden file, so it is unknown whether that file has changed.
    """

    def is_hidden(*names: str) -> bool:
        return not all(ctx.permissions.is_visible(os.path.join(root, name)) for name in names if name)

    found.warned += [CheckDetail(path, 0, _UNSEEN) for path in sorted(filter(is_hidden, found.on_disk))]
    return [
        replace(change, withheld=_HIDDEN) if is_hidden(change.path, change.old_path) else change
        for change in found.changes
    ]


def _display_name(name: str) -> str:
    """Returns a name for display: it can contain a secret like any line."""
    return mask_text(precommit_report.path_text(name))


def _displayable_check(check: Check) -> Check:
    each_once = tuple(dict.fromkeys(check.details))
    details = [
        CheckDetail(_display_name(each.path), each.line, _display_name(each.text))
        for each in each_once[:_MOST_DETAILS]
    ]
    if len(each_once) > _MOST_DETAILS:
        more = CheckDetail("", 0, f"{len(each_once) - _MOST_DETAILS:,} more like these")
        details = [*details, more]
    return replace(check, details=tuple(details))


def _failure_reason(check: Check) -> str:
    return f"{check.name}: {precommit_report.format_detail(check.details[0])}" + (
        f", and {len(check.details) - 1} more" if len(check.details) > 1 else ""
    )
