"""Renders an inspection as text for readers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolyard.assistant.precommit.findings import Check, CheckDetail, CheckOutcome, FileChange
from toolyard.snapshots.service.format import pluralize

_MARKS = {
    CheckOutcome.PASSED: "ok",
    CheckOutcome.WARNED: "warned",
    CheckOutcome.FAILED: "FAILED",
    CheckOutcome.SKIPPED: "nothing to do",
}
_SHORT_HEAD = 12
_SHOWN_DETAILS = 20
_SHOWN_FILES = 100


def path_text(path: str) -> str:
    """Returns a path as text; bytes that are not UTF-8 are replaced."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def escape_unprintable(path: str) -> str:
    """Escapes unprintable characters, so that a name cannot start a line of the report."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in path)


def format_detail(detail: CheckDetail) -> str:
    location = escape_unprintable(detail.path) + (f":{detail.line}" if detail.line else "")
    return f"{location} {detail.text}".strip()


def verdict_lines(verdict: str, checks: str, review: str, reasons: Sequence[str]) -> str:
    """Renders the first lines of the answer."""
    lines = [f"Verdict: {verdict}", f"checks: {checks}", f"review: {review}"]
    return "\n".join([*lines, *(f"- {escape_unprintable(reason)}" for reason in reasons)])


def render_report(branch: str, head: str, changes: Sequence[FileChange], checks: Sequence[Check]) -> str:
    """Renders the changes and the checks."""
    where = f"on {escape_unprintable(branch)}" if branch else "on no branch (HEAD is detached)"
    since = f"after {head[:_SHORT_HEAD]}" if head else "before the first commit"
    lines = [f"{pluralize(len(changes), 'change')} {where}, {since}:", *_change_lines(changes), "", "Checks:"]
    for check in checks:
        lines.append(f"- {check.name}: {_MARKS[check.outcome]}")
        lines += [f"  - {format_detail(each)}" for each in check.details[:_SHOWN_DETAILS]]
        if len(check.details) > _SHOWN_DETAILS:
            lines.append(f"  - {len(check.details) - _SHOWN_DETAILS} more")
    return "\n".join(lines)


def _change_lines(changes: Sequence[FileChange]) -> Iterator[str]:
    for change in changes[:_SHOWN_FILES]:
        yield f"- {change_title(change)}"
    if len(changes) > _SHOWN_FILES:
        yield f"- {len(changes) - _SHOWN_FILES} more"


def change_title(change: FileChange) -> str:
    name = escape_unprintable(change.path)
    if change.old_path:
        name = f"{escape_unprintable(change.old_path)} -> {name}"
    attributes = [change.status.value, "staged" if change.is_staged else "not staged"]
    attributes += ["binary"] if change.is_binary else []
    return f"{name} ({', '.join(attributes)})"
