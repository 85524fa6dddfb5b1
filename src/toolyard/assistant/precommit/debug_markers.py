"""Checks for leftovers in a change: conflict markers, debugger calls, tests that run alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from toolyard.assistant.precommit.findings import ChangeStatus, Check, CheckDetail, FileChange

_CONFLICT_MARKERS = ("<<<<<<< ", ">>>>>>> ", "||||||| ")
_LONGEST = 1_000
_PROSE = (".md", ".rst", ".txt", ".adoc")
_DEBUG_PATTERNS = (
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
_DO_NOT_COMMIT = re.compile(r"\bno-?commit\b|\bdo[ -]?not[ -]?(?:commit|merge)\b", re.IGNORECASE)


def check_conflicts(changes: Iterable[FileChange], check_time: Callable[[], None]) -> Check:
    """Fails for unresolved conflicts and conflict markers."""
    failed: list[CheckDetail] = []
    for change in changes:
        check_time()
        if change.status is ChangeStatus.CONFLICTED:
            failed.append(CheckDetail(change.path, 0, "is in conflict: resolve it, then `git add` it"))
        failed += [
            CheckDetail(change.path, number, "is a conflict marker")
            for number, text in change.added
            if text.startswith(_CONFLICT_MARKERS)
        ]
    return Check.from_details("conflicts", failed=tuple(failed))


def check_debug_markers(changes: Iterable[FileChange], check_time: Callable[[], None]) -> Check:
    """Warns about debugger calls and lines marked as not to be committed."""
    warned: list[CheckDetail] = []
    for change in changes:
        check_time()
        patterns = [pattern for pattern, endings in _DEBUG_PATTERNS if change.path.endswith(endings)]
        for number, text in change.added:
            if len(text) > _LONGEST:
                continue
            if any(pattern.search(text) for pattern in patterns):
                warned.append(CheckDetail(change.path, number, "looks like leftover debugging code"))
            elif not change.path.endswith(_PROSE) and _DO_NOT_COMMIT.search(text):
                warned.append(CheckDetail(change.path, number, "is marked as not to be committed"))
    return Check.from_details("debugging", warned=tuple(warned))


def submodule_warnings(changes: Iterable[FileChange]) -> Iterator[CheckDetail]:
    """Yields a warning for each submodule that moves: its commits belong to another repository."""
    for change in changes:
        if change.status is not ChangeStatus.SUBMODULE:
            continue
        old, new = _submodule_commit(change.removed), _submodule_commit(text for _, text in change.added)
        if new and not old:
            yield CheckDetail(change.path, 0, f"is a submodule at {new[:_SHORT_ID]}: its commits were not inspected")
        elif new and new != old:
            moved = f"{old[:_SHORT_ID]}..{new[:_SHORT_ID]}"
            yield CheckDetail(
                change.path, 0, f"is a submodule that moves {moved}: its new commits were not inspected"
            )


def _submodule_commit(lines: Iterable[str]) -> str:
    """Returns the commit that the lines name; empty if there is none."""
    found = (_SUBPROJECT.fullmatch(line) for line in lines)
    return next((match[1] for match in found if match is not None), "")
