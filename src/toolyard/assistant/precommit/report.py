"""An inspection as text, for a reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolyard.assistant.precommit.findings import Change, Check, Detail, Outcome
from toolyard.snapshots.service.format import counted

_MARKS = {Outcome.PASSED: "ok", Outcome.WARNED: "warned", Outcome.FAILED: "FAILED", Outcome.SKIPPED: "nothing to do"}
_SHORT_HEAD = 12
_SHOWN_DETAILS = 20
_SHOWN_FILES = 100


def text_of(path: str) -> str:
    """A path as text; the bytes in it that are no UTF-8 are replaced."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def on_one_line(path: str) -> str:
    """Nothing in a name may begin a line of ours."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in path)


def detail(each: Detail) -> str:
    place = on_one_line(each.path) + (f":{each.line}" if each.line else "")
    return f"{place} {each.text}".strip()


def verdict_lines(verdict: str, checks: str, review: str, reasons: Sequence[str]) -> str:
    """How the answer begins."""
    lines = [f"Verdict: {verdict}", f"checks: {checks}", f"review: {review}"]
    return "\n".join([*lines, *(f"- {on_one_line(reason)}" for reason in reasons)])


def report(branch: str, head: str, changes: Sequence[Change], checks: Sequence[Check]) -> str:
    where = f"on {on_one_line(branch)}" if branch else "on no branch (HEAD is detached)"
    since = f"after {head[:_SHORT_HEAD]}" if head else "before the first commit"
    lines = [f"{counted(len(changes), 'change')} {where}, {since}:", *_listed(changes), "", "Checks:"]
    for check in checks:
        lines.append(f"- {check.name}: {_MARKS[check.outcome]}")
        lines += [f"  - {detail(each)}" for each in check.details[:_SHOWN_DETAILS]]
        if len(check.details) > _SHOWN_DETAILS:
            lines.append(f"  - {len(check.details) - _SHOWN_DETAILS} more")
    return "\n".join(lines)


def _listed(changes: Sequence[Change]) -> Iterator[str]:
    for change in changes[:_SHOWN_FILES]:
        yield f"- {title(change)}"
    if len(changes) > _SHOWN_FILES:
        yield f"- {len(changes) - _SHOWN_FILES} more"


def title(change: Change) -> str:
    name = on_one_line(change.path)
    if change.old_path:
        name = f"{on_one_line(change.old_path)} -> {name}"
    said = [change.status.value, "staged" if change.is_staged else "not staged"]
    said += ["binary"] if change.is_binary else []
    return f"{name} ({', '.join(said)})"
