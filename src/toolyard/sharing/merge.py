"""Three versions of a file and what becomes of them. Pure: contents in, a decision out.

Text is merged line by line, with conflict markers that name both sides. What is not text, or too large, is never
overwritten when both sides have changed it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from toolyard.core.limits import MIB
from toolyard.files.content.file_type import Category, sniff
from toolyard.sharing.conflict_markers import Names, Side, joined, unresolved
from toolyard.sharing.diff3 import Conflict, merge_lines
from toolyard.snapshots.store.objects import Entry

_MOST_BYTES = 1 * MIB
_MOST_LINES = 20_000
"""Of a text that is merged line by line."""
_TOO_LARGE = "changed on both sides, and too large to merge"
_MODES = 0o777


class Outcome(StrEnum):
    ADDED = "added"
    MERGED = "merged"
    REMOVED = "removed"
    CONFLICT = "conflict"
    KEPT = "kept"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Decision:
    outcome: Outcome
    why: str = ""
    data: bytes | None = None
    """What is to be written; None when nothing is."""
    mode: int | None = None
    """The mode to set, where it is not to stay as it is."""
    beside: bool = False
    """It goes beside the file, which stays."""


Read = Callable[[Entry], bytes]


def decide(
    base: Entry | None,
    ours: Entry | None,
    theirs: Entry | None,
    read: Read,
    names: Names,
    *,
    prefer: Side | None = None,
) -> Decision:
    """What is to become of our file. `read` gives a version's bytes, and may raise. `prefer` settles conflicts."""
    if theirs is None:
        return _removed(base, ours)
    if ours is None:
        return _settled(_absent(base, theirs, read), prefer)
    mode = _mode(base, ours, theirs)
    if ours.ref == theirs.ref:
        return Decision(Outcome.UNCHANGED) if mode is None else Decision(Outcome.MERGED, "its mode", mode=mode)
    if base is not None and base.ref == ours.ref:
        return Decision(Outcome.MERGED, "changed there alone", read(theirs), mode)
    is_ours_alone = base is not None and base.ref == theirs.ref
    marked = _still_marked(ours, read, names, prefer if is_ours_alone else None)
    if marked is not None:
        return marked
    if is_ours_alone:
        return Decision(Outcome.KEPT, "changed here alone")
    decision = _settled(_three_way(base, ours, theirs, read, names, prefer=prefer), prefer)
    return decision if decision.beside or decision.data is None else replace(decision, mode=mode)


def _still_marked(ours: Entry, read: Read, names: Names, prefer: Side | None) -> Decision | None:
    """Marks of an earlier merge that are still there: merging over them would mark the marks."""
    if ours.size > _MOST_BYTES:
        return None
    pieces = unresolved(read(ours), names.ours)
    if not any(isinstance(piece, Conflict) for piece in pieces):
        return None
    if prefer is None:
        return Decision(Outcome.CONFLICT, "still has conflict markers: resolve them first")
    return Decision(Outcome.MERGED, f"its conflict markers: {prefer} taken", joined(pieces, names, b"", prefer))


def _settled(decision: Decision, prefer: Side | None) -> Decision:
    """A file that would go beside ours, as one side settles it."""
    if prefer is None or not decision.beside:
        return decision
    why = f"{decision.why}: {prefer} taken"
    if prefer is Side.OURS:
        return Decision(Outcome.KEPT, why)
    return replace(decision, outcome=Outcome.MERGED, why=why, beside=False)


def _removed(base: Entry | None, ours: Entry | None) -> Decision:
    if ours is None:
        return Decision(Outcome.UNCHANGED)
    if base is None:
        return Decision(Outcome.KEPT, "never was theirs")
    if base.ref == ours.ref:
        return Decision(Outcome.REMOVED, "removed there, unchanged here")
    return Decision(Outcome.KEPT, "removed there, but changed here")


def _absent(base: Entry | None, theirs: Entry, read: Read) -> Decision:
    if base is None:
        return Decision(Outcome.ADDED, data=read(theirs), mode=theirs.mode & _MODES)
    if base.ref == theirs.ref:
        return Decision(Outcome.KEPT, "removed here, unchanged there")
    return Decision(
        Outcome.CONFLICT, "removed here, but changed there", read(theirs), theirs.mode & _MODES, beside=True
    )


def _mode(base: Entry | None, ours: Entry, theirs: Entry) -> int | None:
    """Their mode, where they changed it and we did not."""
    mine, their = ours.mode & _MODES, theirs.mode & _MODES
    if mine == their or base is None or base.mode & _MODES != mine:
        return None
    return their


def _three_way(
    base: Entry | None, ours: Entry, theirs: Entry, read: Read, names: Names, *, prefer: Side | None
) -> Decision:
    versions = [version for version in (base, ours, theirs) if version is not None]
    beside = Decision(Outcome.CONFLICT, mode=theirs.mode & _MODES, beside=True)
    if any(version.size > _MOST_BYTES for version in versions):
        return replace(beside, why=_TOO_LARGE, data=read(theirs))
    data = {version.ref: read(version) for version in versions}
    their_data = data[theirs.ref]
    if not all(_is_text(text) for text in data.values()):
        return replace(beside, why="changed on both sides, and no text", data=their_data)
    if any(text.count(b"\n") >= _MOST_LINES for text in data.values()):
        return replace(beside, why=_TOO_LARGE, data=their_data)
    merged, conflicts = merge_texts(data[base.ref] if base else b"", data[ours.ref], their_data, names, prefer)
    told = f"{conflicts} conflict{'s' * (conflicts != 1)}"
    if conflicts and prefer is None:
        return Decision(Outcome.CONFLICT, f"{told} to resolve", merged)
    if merged == data[ours.ref]:
        return Decision(Outcome.KEPT, f"{told}: ours taken" if conflicts else "holds their changes already")
    return Decision(Outcome.MERGED, f"{told}: {prefer} taken" if conflicts else "changed on both sides", merged)


def _is_text(data: bytes) -> bool:
    return sniff(data, "").category in {Category.TEXT, Category.NOTEBOOK} and b"\0" not in data


def merge_texts(
    base: bytes, ours: bytes, theirs: bytes, names: Names, prefer: Side | None = None
) -> tuple[bytes, int]:
    """Both sides' changes in one text, and how many conflicts there were: marked in it, or settled."""
    lines = [text.splitlines(keepends=True) for text in (base, ours, theirs)]
    ending = b"\r\n" if ours.partition(b"\n")[0].endswith(b"\r") else b"\n"
    pieces = list(merge_lines(lines[0], lines[1], lines[2]))
    return joined(pieces, names, ending, prefer), sum(isinstance(piece, Conflict) for piece in pieces)
