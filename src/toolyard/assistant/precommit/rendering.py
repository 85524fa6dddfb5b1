"""An inspection as text: for a reader, and for a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolyard.app.snapshots.telling import counted
from toolyard.assistant.precommit.findings import Change, Check, Detail, Outcome
from toolyard.core.tokens import estimate_tokens

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


def told(
    branch: str, head: str, changes: Sequence[Change], checks: Sequence[Check], verdict: tuple[str, Sequence[str]]
) -> str:
    where = f"on {on_one_line(branch)}" if branch else "on no branch (HEAD is detached)"
    since = f"after {head[:_SHORT_HEAD]}" if head else "before the first commit"
    lines = [f"Verdict: {verdict[0]}", *(f"- {on_one_line(reason)}" for reason in verdict[1])]
    lines += ["", f"{counted(len(changes), 'change')} {where}, {since}:", *_listed(changes), "", "Checks:"]
    for check in checks:
        lines.append(f"- {check.name}: {_MARKS[check.outcome]}")
        lines += [f"  - {detail(each)}" for each in check.details[:_SHOWN_DETAILS]]
        if len(check.details) > _SHOWN_DETAILS:
            lines.append(f"  - {len(check.details) - _SHOWN_DETAILS} more")
    return "\n".join(lines)


def _listed(changes: Sequence[Change]) -> Iterator[str]:
    for change in changes[:_SHOWN_FILES]:
        yield f"- {_title(change)}"
    if len(changes) > _SHOWN_FILES:
        yield f"- {len(changes) - _SHOWN_FILES} more"


def _title(change: Change) -> str:
    name = on_one_line(change.path)
    if change.old_path:
        name = f"{on_one_line(change.old_path)} -> {name}"
    said = [change.status.value, "staged" if change.is_staged else "not staged"]
    said += ["binary"] if change.is_binary else []
    said += ["with changes of its own"] if change.is_dirty else []
    return f"{name} ({', '.join(said)})"


def diff(changes: Sequence[Change], tokens: int) -> str:
    """Each change with its lines. Where all are too much, the longest are cut, each to the same length."""
    parts = [_part(change) for change in changes]
    costs = [[estimate_tokens(line) + 1 for line in part] for part in parts]
    most = _level([sum(each) for each in costs], tokens)
    shown: list[str] = []
    for part, cost in zip(parts, costs, strict=True):
        shown += _cut(part, cost, most)
    return "\n".join(shown)


def _part(change: Change) -> list[str]:
    head = f"=== {_title(change)}"
    if change.withheld:
        return [head, f"[not shown: {change.withheld}]"]
    return [head, *(change.diff.split("\n") if change.diff else [])]


def _level(costs: Sequence[int], tokens: int) -> int:
    """What each may cost at most, so that all together cost no more than `tokens`."""
    left, most = tokens, tokens
    for number, cost in enumerate(sorted(costs)):
        most = left // (len(costs) - number)
        if cost > most:
            return most
        left -= cost
    return max(costs, default=0)


def _cut(part: Sequence[str], cost: Sequence[int], most: int) -> Iterator[str]:
    if sum(cost) <= most:
        yield from part
        return
    left = most - 12  # what is said of the rest
    for at, (line, price) in enumerate(zip(part, cost, strict=True)):
        left -= price
        if left < 0:
            if at or most > 0:
                yield f"[... {len(part) - at:,} more lines of this change]"
            return
        yield line
