"""The check that runs linters on the changed files, as they are on disk.

An error on a changed line fails the commit. Elsewhere in a changed file it is a warning: it may be older, or caused
by a removed line.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from toolyard.assistant.linting import lint
from toolyard.assistant.linting.model import LintFinding
from toolyard.assistant.precommit.deadline import Deadline
from toolyard.assistant.precommit.findings import ChangeStatus, Check, CheckDetail, CheckOutcome, FileChange
from toolyard.core.paths import relative_to

_NAME = "lint"
_LINT_SECONDS = 30.0
_ELSEWHERE = "outside of the change; it may have been there before"
_ON_DISK = "has changes that are not staged: linters saw the file as it is on disk"


def lint_changes(deadline: Deadline, root: str, changes: Sequence[FileChange], *, staged_only: bool) -> Check:
    """Lints the changed files; `root` is the repository's. May raise OutOfTime."""
    present = [change for change in changes if not change.withheld and change.status is not ChangeStatus.DELETED]
    lines_of: dict[str, set[int]] = {}
    for change in present:
        if os.path.islink(
            os.path.join(root, change.path)
        ):  # the change is the link's target path, not the content there
            continue
        lines_of.setdefault(change.path, set()).update(number for number, _ in change.added)
    seconds = min(_LINT_SECONDS, deadline.seconds_left())
    evidence = lint(deadline.ctx, [os.path.join(root, path) for path in lines_of], seconds=seconds)
    workspace = deadline.ctx.mounts.workspace.path
    prefix = relative_to(root, workspace) or "."
    failed: list[CheckDetail] = []
    warned: list[CheckDetail] = []
    for finding in evidence.findings:
        path = os.path.relpath(finding.path, prefix)
        is_changed = finding.line in lines_of.get(path, ())
        if finding.level == "error":
            (failed if is_changed else warned).append(_detail(finding, path, "" if is_changed else _ELSEWHERE))
        elif finding.level == "warning" and is_changed:
            warned.append(_detail(finding, path))
    if staged_only:
        also_on_disk = {change.path for change in changes if not change.is_staged}
        warned += [CheckDetail(path, 0, _ON_DISK) for path in sorted(also_on_disk & set(lines_of))]
    if not evidence.ran:
        return Check(_NAME, CheckOutcome.SKIPPED, tuple(CheckDetail("", 0, note) for note in evidence.notes))
    return Check.from_details(_NAME, failed=tuple(failed), warned=tuple(warned))


def _detail(finding: LintFinding, path: str, more: str = "") -> CheckDetail:
    rule = f"{finding.tool} {finding.code}".strip()
    return CheckDetail(path, finding.line, f"{finding.text} ({rule})" + (f", {more}" if more else ""))
