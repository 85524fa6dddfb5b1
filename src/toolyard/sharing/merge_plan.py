"""What a merge would do, file by file, worked out from snapshots alone. Nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from toolyard.core.errors import ToolError
from toolyard.core.limits import Limits
from toolyard.sharing.conflict_markers import Side, SideNames
from toolyard.sharing.merge import MergeDecision, MergeOutcome, ReadEntry, decide_merge
from toolyard.sharing.merge_base import AgentHistory, MergeRecords, common_ancestor
from toolyard.sharing.path_selection import PathSelection, is_git_name
from toolyard.sharing.provenance import MergeOrigin, Provenance
from toolyard.sharing.visibility import VisibilityFilter
from toolyard.snapshots.diff.sides import root_entry
from toolyard.snapshots.snapshot_store import SnapshotStore
from toolyard.snapshots.store.models import DamagedObjectError, Snapshot
from toolyard.snapshots.store.object_reader import ObjectReader
from toolyard.snapshots.store.objects import EntryKind, TreeEntry

MAX_FILES = 5_000
"""In one merge: each is judged, compared and perhaps written."""
SHORT_ID_CHARS = 8
"""Of a snapshot's id, in the name of a second file that goes beside another."""
_PERMISSION_BITS = 0o777


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """Who merges what of whom."""

    agent: str
    peer: str
    ours: Snapshot
    theirs: Snapshot
    peer_filter: VisibilityFilter
    """What the peer shows."""
    is_visible: Callable[[str], bool]
    """Whether our own policy lets us see a path of theirs, relative to their workspace."""
    selection: PathSelection
    limits: Limits
    prefer: Side | None = None
    """Whose lines, or whose file, settles a conflict."""
    suffix: str = ""
    """What the name of a peer's file ends with that was put beside ours."""


@dataclass(frozen=True, slots=True)
class MergeItem:
    path: bytes
    decision: MergeDecision
    ours: TreeEntry | None
    theirs: TreeEntry | None
    base: TreeEntry | None = None
    old_path: bytes | None = None
    """Where our file is now, when the peer has renamed it: it goes to `path`."""
    aside: tuple[bytes, TreeEntry] | None = None
    """What an earlier merge put beside ours and nobody has touched: it goes when theirs is taken."""

    @property
    def is_change(self) -> bool:
        decision = self.decision
        return decision.data is not None or decision.mode is not None or self.removes or self.old_path is not None

    @property
    def removes(self) -> bool:
        return self.decision.outcome is MergeOutcome.REMOVED


@dataclass(frozen=True, slots=True)
class MergePlan:
    items: list[MergeItem]
    repositories: tuple[str, ...]
    """Folders of the peer's repositories whose `.git` is meant and differs from ours: left alone."""


class MergePlanner:
    def __init__(
        self, store: SnapshotStore, provenance: Provenance, request: MergeRequest, check: Callable[[], None]
    ) -> None:
        self._store = store
        self._provenance = provenance
        self._request = request
        self._check = check
        self._names = SideNames(request.agent, f"{request.peer} (snapshot {request.theirs.id[:8]})")

    def build_plan(self) -> MergePlan:
        """Raises ToolError when nothing is selected, or too much."""
        wish = self._request
        repositories: dict[bytes, TreeEntry] = {}
        mine_too: dict[bytes, TreeEntry] = {}
        with self._store.reader() as reader:
            theirs = self._select_files(reader, wish.theirs, repositories, their=True)
            ours = self._select_files(reader, wish.ours, mine_too, their=False)
            links = sorted(path for path, entry in theirs.items() if not entry.is_file)
            files = {path: entry for path, entry in theirs.items() if entry.is_file}
            mine = {path: entry for path, entry in ours.items() if entry.is_file}
            histories = [
                AgentHistory(reader, self._store.list(wish.ours.root)),
                AgentHistory(reader, self._history_until(wish.theirs)),
            ]
            items = [
                MergeItem(path, MergeDecision(MergeOutcome.KEPT, "a link there"), None, theirs[path])
                for path in links
            ]
            for path in sorted(files.keys() | mine.keys()):
                self._check()
                if path not in theirs or path in files:
                    items.append(self._plan_item(reader, histories, path, mine.get(path), files.get(path)))
        items = [item for item in items if not _is_unrelated(item)]
        left = sorted(path for path, entry in repositories.items() if mine_too.get(path) != entry)
        if not items and not left:
            raise ToolError(
                f"{wish.peer} shows no such files, and had none.", hint=f"See what shared/{wish.peer} holds."
            )
        return MergePlan(_with_renames(items), tuple(os.fsdecode(os.path.dirname(path)) for path in left))

    def _history_until(self, newest: Snapshot) -> list[Snapshot]:
        """What the peer had up to the snapshot that it shows."""
        return [one for one in self._store.list(newest.root) if one.number <= newest.number]

    def _select_files(
        self, reader: ObjectReader, snapshot: Snapshot, repositories: dict[bytes, TreeEntry], *, their: bool
    ) -> dict[bytes, TreeEntry]:
        """The files that are meant. Each `.git` that is meant goes to `repositories`, and nothing inside it."""
        found: dict[bytes, TreeEntry] = {}
        for path, entry in self._walk(reader, snapshot, their=their):
            text = os.fsdecode(path)
            if not self._request.selection.includes(text) or (their and not self._request.is_visible(text)):
                continue
            if is_git_name(os.path.basename(text)):
                repositories[path] = entry
                continue
            if entry.kind in {EntryKind.FOLDER, EntryKind.SKIPPED}:
                continue
            found[path] = entry
            if len(found) > MAX_FILES:
                raise ToolError(f"More than {MAX_FILES:,} files are meant.", hint="Merge a folder at a time.")
        return found

    def _walk(self, reader: ObjectReader, snapshot: Snapshot, *, their: bool) -> Iterator[tuple[bytes, TreeEntry]]:
        """Everything of a snapshot, as far as it is shown, and of each `.git` only that it is there.

        A repository is whole or broken: half of its index, refs and objects from somebody else breaks it.
        """
        waiting = [(b"", root_entry(snapshot))]
        while waiting:
            self._check()
            folder, top = waiting.pop()
            for entry in reader.entries(top.ref):
                if not their or self._request.peer_filter.shows(folder, entry):
                    path = folder + b"/" + entry.name if folder else entry.name
                    yield path, entry
                    if entry.kind is EntryKind.FOLDER and not is_git_name(os.fsdecode(entry.name)):
                        waiting.append((path, entry))

    def _plan_item(
        self,
        reader: ObjectReader,
        histories: list[AgentHistory],
        path: bytes,
        ours: TreeEntry | None,
        theirs: TreeEntry | None,
    ) -> MergeItem:
        if ours is not None and theirs is not None and ours.ref == theirs.ref and ours.mode == theirs.mode:
            return MergeItem(path, MergeDecision(MergeOutcome.UNCHANGED), ours, theirs)
        wish = self._request
        known = MergeRecords(
            self._provenance.origins_of(wish.agent, path, wish.peer),
            self._provenance.origins_of(wish.peer, path, wish.agent),
        )
        base = common_ancestor(histories[0], histories[1], path, path, known)

        def read(entry: TreeEntry) -> bytes:
            if entry.size > wish.limits.file_bytes:
                raise _TooLarge
            return reader.content(entry)

        try:
            decision = decide_merge(base, ours, theirs, read, self._names, prefer=wish.prefer)
        except _TooLarge:
            decision = MergeDecision(
                MergeOutcome.KEPT, f"larger than {wish.limits.file_bytes:,} bytes: copy it with a command"
            )
        except DamagedObjectError as damage:
            decision = MergeDecision(MergeOutcome.KEPT, damage.message)
        item = MergeItem(path, decision, ours, theirs, base)
        return (
            self._take_theirs_from_copy(item, histories[0], known.ours, read) if wish.prefer is Side.THEIRS else item
        )

    def _take_theirs_from_copy(
        self, item: MergeItem, history: AgentHistory, merged: Sequence[MergeOrigin], read: ReadEntry
    ) -> MergeItem:
        """Theirs is to be taken where an earlier merge put it beside ours, and what it put there was not cleared."""
        theirs = item.theirs
        if theirs is None or not merged or merged[0].outcome != MergeOutcome.CONFLICT:
            return item
        names = (self._request.suffix, f"{self._request.suffix}-{merged[0].snapshot[:SHORT_ID_CHARS]}")
        beside = [
            (name, history.entry(self._request.ours, name)) for name in (item.path + os.fsencode(n) for n in names)
        ]
        there = [(name, entry) for name, entry in beside if entry is not None]
        untouched = next((each for each in there if each[1].ref == merged[0].digest), None)
        decision = item.decision
        if decision.outcome is MergeOutcome.KEPT and there and merged[0].digest == theirs.ref:
            try:
                decision = MergeDecision(
                    MergeOutcome.MERGED,
                    "put beside it before: theirs taken",
                    read(theirs),
                    theirs.mode & _PERMISSION_BITS,
                )
            except (_TooLarge, DamagedObjectError):
                return item
        return replace(item, decision=decision, aside=untouched if decision.outcome is MergeOutcome.MERGED else None)


class _TooLarge(Exception):  # noqa: N818 - becomes a decision
    """More than is read into memory."""


def _is_unrelated(item: MergeItem) -> bool:
    """A file of ours that never was the peer's, or one that neither has."""
    return item.theirs is None and item.base is None


def _with_renames(items: list[MergeItem]) -> list[MergeItem]:
    """Where the peer renamed a file without changing it, and we changed it, ours goes to the new name."""
    new = {item.theirs.ref: item for item in items if item.decision.outcome is MergeOutcome.ADDED and item.theirs}
    done: dict[bytes, MergeItem] = {}
    for item in items:
        kept = item.decision.outcome is MergeOutcome.KEPT and item.theirs is None and item.ours is not None
        target = new.get(item.base.ref) if kept and item.base is not None else None
        if target is not None and target.path not in done:
            renamed = MergeDecision(MergeOutcome.MERGED, f"renamed there from {os.fsdecode(item.path)}, changed here")
            done[target.path] = replace(target, decision=renamed, ours=item.ours, old_path=item.path)
    gone = {item.old_path for item in done.values()}
    return [done.get(item.path, item) for item in items if item.path not in gone]
