"""What is left in a change by mistake: conflict markers, debuggers, tests that run alone, large binary files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from toolyard.assistant.precommit.findings import Change, Check, Detail, Status

_BEGINS = ("<<<<<<< ", ">>>>>>> ", "||||||| ")
_LONGEST = 1_000
_PROSE = (".md", ".rst", ".txt", ".adoc")
_LEFT = (
    (re.compile(r"\bbreakpoint\(\)|^\s*import (?:i?pdb|pudb)\b|\b(?:i?pdb|pudb)\.set_trace\("), (".py",)),
    (
        re.compile(r"^\s*debugger;?\s*$|\b(?:it|test|describe|context)\.only\("),
        (".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".vue", ".svelte"),
    ),
    (re.compile(r"\bbinding\.(?:pry|irb)\b|^\s*(?:byebug|debugger)\s*$"), (".rb", ".erb")),
    (re.compile(r"\bdbg!\("), (".rs",)),
    (re.compile(r"\bvar_dump\(|\bdd\("), (".php",)),
)
_SUBPROJECT = re.compile(r"Subproject commit ([0-9a-f]{40,64})")
_SHORT_ID = 12
_MARKED = re.compile(r"\bno-?commit\b|\bdo[ -]?not[ -]?(?:commit|merge)\b", re.IGNORECASE)


def conflicts(changes: Iterable[Change], check_time: Callable[[], None]) -> Check:
    failed: list[Detail] = []
    for change in changes:
        check_time()
        if change.status is Status.CONFLICTED:
            failed.append(Detail(change.path, 0, "is in conflict: resolve it, then `git add` it"))
        failed += [
            Detail(change.path, number, "is a conflict marker")
            for number, text in change.added
            if text.startswith(_BEGINS)
        ]
    return Check.of("conflicts", failed=tuple(failed))


def debugging(changes: Iterable[Change], check_time: Callable[[], None]) -> Check:
    warned: list[Detail] = []
    for change in changes:
        check_time()
        patterns = [pattern for pattern, endings in _LEFT if change.path.endswith(endings)]
        for number, text in change.added:
            if len(text) > _LONGEST:
                continue
            if any(pattern.search(text) for pattern in patterns):
                warned.append(Detail(change.path, number, "looks like a left-over of debugging"))
            elif not change.path.endswith(_PROSE) and _MARKED.search(text):
                warned.append(Detail(change.path, number, "says that it is not to be committed"))
    return Check.of("debugging", warned=tuple(warned))


def submodules(changes: Iterable[Change]) -> Iterator[Detail]:
    """What nobody looked into: a commit of a submodule is one of another repository."""
    for change in changes:
        if change.status is not Status.SUBMODULE:
            continue
        old, new = _commit(change.removed), _commit(text for _, text in change.added)
        if new and not old:
            yield Detail(change.path, 0, f"is a submodule at {new[:_SHORT_ID]}: its commits were not looked into")
        elif new and new != old:
            moved = f"{old[:_SHORT_ID]}..{new[:_SHORT_ID]}"
            yield Detail(change.path, 0, f"is a submodule that moves {moved}: its new commits were not looked into")


def _commit(lines: Iterable[str]) -> str:
    """Empty where no line names one."""
    found = (_SUBPROJECT.fullmatch(line) for line in lines)
    return next((match[1] for match in found if match is not None), "")
