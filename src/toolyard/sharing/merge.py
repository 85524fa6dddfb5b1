"""Decides how three versions of a file are merged. Pure: contents in, a decision out.

Text is merged line by line, with conflict markers that name both sides. Files that are not text, or too large, are
never overwritten if both sides changed them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from toolyard.core.limits import MIB
from toolyard.files.content.file_type import Category, sniff
from toolyard.sharing.conflict_markers import Side, SideNames, parse_conflict_markers, render_merge
from toolyard.sharing.diff3 import Conflict, merge_lines
from toolyard.snapshots.store.objects import TreeEntry

_MAX_BYTES = 1 * MIB
_MAX_LINES = 20_000
"""Limit of a text that is merged line by line."""
_TOO_LARGE = "changed on both sides, and too large to merge"
_PERMISSION_BITS = 0o777


class MergeOutcome(StrEnum):
    """What happens to a file in a merge."""

    ADDED = "added"
    MERGED = "merged"
    REMOVED = "removed"
    CONFLICT = "conflict"
    KEPT = "kept"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class MergeDecision:
    """The outcome for one file, and what to write."""

    outcome: MergeOutcome
    why: str = ""
    data: bytes | None = None
    """The content to write; None if nothing is written."""
    mode: int | None = None
    """The mode to set; None to keep the current one."""
    beside: bool = False
    """Whether `data` goes into a second file beside ours, which stays unchanged."""


ReadEntry = Callable[[TreeEntry], bytes]


def decide_merge(
    base: TreeEntry | None,
    ours: TreeEntry | None,
    theirs: TreeEntry | None,
    read: ReadEntry,
    names: SideNames,
    *,
    prefer: Side | None = None,
) -> MergeDecision:
    """Decides what happens to our file. `read` returns a version's bytes and may raise;
    `prefer` resolves conflicts.
    """
    if theirs is None:
        return _decide_removed(base, ours)
    if ours is None:
        return _apply_preference(_decide_absent(base, theirs, read), prefer)
    mode = _merged_mode(base, ours, theirs)
    if ours.ref == theirs.ref:
        return (
            MergeDecision(MergeOutcome.UNCHANGED)
            if mode is None
            else MergeDecision(MergeOutcome.MERGED, "its mode", mode=mode)
        )
    if base is not None and base.ref == ours.ref:
        return MergeDecision(MergeOutcome.MERGED, "changed there alone", read(theirs), mode)
    is_ours_alone = base is not None and base.ref == theirs.ref
    marked = _decide_marked(ours, read, names, prefer if is_ours_alone else None)
    if marked is not None:
        return marked
    if is_ours_alone:
        return MergeDecision(MergeOutcome.KEPT, "changed here alone")
    decision = _apply_preference(_merge_three_way(base, ours, theirs, read, names, prefer=prefer), prefer)
    return decision if decision.beside or decision.data is None else replace(decision, mode=mode)


def _decide_marked(ours: TreeEntry, read: ReadEntry, names: SideNames, prefer: Side | None) -> MergeDecision | None:
    """Returns the decision for a file with unresolved markers of an earlier merge, or None. Merging again would nest
    the markers.
    """
    if ours.size > _MAX_BYTES:
        return None
    pieces = parse_conflict_markers(read(ours), names.ours)
    if not any(isinstance(piece, Conflict) for piece in pieces):
        return None
    if prefer is None:
        return MergeDecision(MergeOutcome.CONFLICT, "still has conflict markers: resolve them first")
    return MergeDecision(
        MergeOutcome.MERGED, f"its conflict markers: {prefer} taken", render_merge(pieces, names, b"", prefer)
    )


def _apply_preference(decision: MergeDecision, prefer: Side | None) -> MergeDecision:
    """Returns the decision with the preferred side in place of a second file beside ours."""
    if prefer is None or not decision.beside:
        return decision
    why = f"{decision.why}: {prefer} taken"
    if prefer is Side.OURS:
        return MergeDecision(MergeOutcome.KEPT, why)
    return replace(decision, outcome=MergeOutcome.MERGED, why=why, beside=False)


def _decide_removed(base: TreeEntry | None, ours: TreeEntry | None) -> MergeDecision:
    if ours is None:
        return MergeDecision(MergeOutcome.UNCHANGED)
    if base is None:
        return MergeDecision(MergeOutcome.KEPT, "never was theirs")
    if base.ref == ours.ref:
        return MergeDecision(MergeOutcome.REMOVED, "removed there, unchanged here")
    return MergeDecision(MergeOutcome.KEPT, "removed there, but changed here")


def _decide_absent(base: TreeEntry | None, theirs: TreeEntry, read: ReadEntry) -> MergeDecision:
    if base is None:
        return MergeDecision(MergeOutcome.ADDED, data=read(theirs), mode=theirs.mode & _PERMISSION_BITS)
    if base.ref == theirs.ref:
        return MergeDecision(MergeOutcome.KEPT, "removed here, unchanged there")
    return MergeDecision(
        MergeOutcome.CONFLICT,
        "removed here, but changed there",
        read(theirs),
        theirs.mode & _PERMISSION_BITS,
        beside=True,
    )


def _merged_mode(base: TreeEntry | None, ours: TreeEntry, theirs: TreeEntry) -> int | None:
    """Returns their mode if they changed it and we did not."""
    mine, their = ours.mode & _PERMISSION_BITS, theirs.mode & _PERMISSION_BITS
    if mine == their or base is None or base.mode & _PERMISSION_BITS != mine:
        return None
    return their


def _merge_three_way(
    base: TreeEntry | None,
    ours: TreeEntry,
    theirs: TreeEntry,
    read: ReadEntry,
    names: SideNames,
    *,
    prefer: Side | None,
) -> MergeDecision:
    versions = [version for version in (base, ours, theirs) if version is not None]
    beside = MergeDecision(MergeOutcome.CONFLICT, mode=theirs.mode & _PERMISSION_BITS, beside=True)
    if any(version.size > _MAX_BYTES for version in versions):
        return replace(beside, why=_TOO_LARGE, data=read(theirs))
    data = {version.ref: read(version) for version in versions}
    their_data = data[theirs.ref]
    if not all(_is_text(text) for text in data.values()):
        return replace(beside, why="changed on both sides, and not text", data=their_data)
    if any(text.count(b"\n") >= _MAX_LINES for text in data.values()):
        return replace(beside, why=_TOO_LARGE, data=their_data)
    merged, conflicts = merge_texts(data[base.ref] if base else b"", data[ours.ref], their_data, names, prefer)
    counted = f"{conflicts} conflict{'s' * (conflicts != 1)}"
    if conflicts and prefer is None:
        return MergeDecision(MergeOutcome.CONFLICT, f"{counted} to resolve", merged)
    if merged == data[ours.ref]:
        return MergeDecision(
            MergeOutcome.KEPT, f"{counted}: ours taken" if conflicts else "holds their changes already"
        )
    return MergeDecision(
        MergeOutcome.MERGED, f"{counted}: {prefer} taken" if conflicts else "changed on both sides", merged
    )


def _is_text(data: bytes) -> bool:
    return sniff(data, "").category in {Category.TEXT, Category.NOTEBOOK} and b"\0" not in data


def merge_texts(
    base: bytes, ours: bytes, theirs: bytes, names: SideNames, prefer: Side | None = None
) -> tuple[bytes, int]:
    """Returns the merged text and the number of conflicts, which are marked in it or resolved."""
    lines = [text.splitlines(keepends=True) for text in (base, ours, theirs)]
    ending = b"\r\n" if ours.partition(b"\n")[0].endswith(b"\r") else b"\n"
    pieces = list(merge_lines(lines[0], lines[1], lines[2]))
    return render_merge(pieces, names, ending, prefer), sum(isinstance(piece, Conflict) for piece in pieces)
