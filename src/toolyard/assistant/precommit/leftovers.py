"""What is left in a change by mistake: conflict markers, debuggers, tests that run alone, large binary files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

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


def submodules(changes: Iterable[Change]) -> tuple[Detail, ...]:
    return tuple(
        Detail(change.path, 0, "has changes of its own that no commit holds: commit them in the submodule")
        for change in changes
        if change.is_dirty
    )
