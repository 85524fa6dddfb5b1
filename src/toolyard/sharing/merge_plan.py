"""Plans a merge file by file, from snapshots alone. Changes nothing."""

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
"""Files of one merge: each is judged, compared and possibly written."""
SHORT_ID_CHARS = 8
"""Characters of a snapshot's id in the name of a second file beside another."""
_PERMISSION_BITS = 0o777


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """Which agent merges what from which peer."""

    agent: str
    peer: str
    ours: Snapshot
    theirs: Snapshot
    peer_filter: VisibilityFilter
    """Decides which files the peer shows."""
    is_visible: Callable[[str], bool]
    """Whether our own policy allows reading a path of the peer, relative to its workspace."""
    selection: PathSelection
    limits: Limits
    prefer: Side | None = None
    """The side whose lines, or whose file, resolve a conflict."""
    suffix: str = ""
    """The end of the name of a peer's file that is put beside ours."""


@dataclass(frozen=True, slots=True)
class MergeItem:
    """The planned merge of one file."""

    path: bytes
    decision: MergeDecision
    ours: TreeEntry | None
    theirs: TreeEntry | None
    base: TreeEntry | None = None
    old_path: bytes | None = None
    """The current path of our file if the peer renamed it: it moves to `path`."""
    aside: tuple[bytes, TreeEntry] | None = None
    """An unmodified second file of an earlier merge, removed when theirs is taken."""

    @property
    def is_change(self) -> bool:
        """Whether the merge changes our workspace."""
        decision = self.decision
        return decision.data is not None or decision.mode is not None or self.removes or self.old_path is not None

    @property
    def removes(self) -> bool:
        """Whether the merge removes our file."""
        return self.decision.outcome is MergeOutcome.REMOVED


@dataclass(frozen=True, slots=True)
class MergePlan:
    """All files of a merge, with their decisions."""

    items: list[MergeItem]
    repositories: tuple[str, ...]
    """The peer's repositories whose `.git` is selected and differs from ours. They are left unchanged."""


class MergePlanner:
    """Works out the plan of one merge request."""

    def __init__(
        self, store: SnapshotStore, provenance: Provenance, request: MergeRequest, check: Callable[[], None]
    ) -> None:
        self._store = store
        self._provenance = provenance
        self._request = request
        self._check = check
        self._names = SideNames(request.agent, f"{request.peer} (snapshot {request.theirs.id[:8]})")

    def build_plan(self) -> MergePlan:
        """Returns the plan. Raises ToolError if no files or too many are selected."""
        request = self._request
        repositories: dict[bytes, TreeEntry] = {}
        mine_too: dict[bytes, TreeEntry] = {}
        with self._store.reader() as reader:
            theirs = self._select_files(reader, request.theirs, repositories, their=True)
            ours = self._select_files(reader, request.ours, mine_too, their=False)
            links = sorted(path for path, entry in theirs.items() if not entry.is_file)
            files = {path: entry for path, entry in theirs.items() if entry.is_file}
            mine = {path: entry for path, entry in ours.items() if entry.is_file}
            histories = [
                AgentHistory(reader, self._store.list(request.ours.root)),
                AgentHistory(reader, self._history_until(request.theirs)),
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
                f"{request.peer} has no matching files, and never had any.",
                hint=f"List shared/{request.peer} to see its files.",
            )
        return MergePlan(_with_renames(items), tuple(os.fsdecode(os.path.dirname(path)) for path in left))

    def _history_until(self, newest: Snapshot) -> list[Snapshot]:
        """Returns the peer's snapshots up to the published one."""
        return [one for one in self._store.list(newest.root) if one.number <= newest.number]

    def _select_files(
        self, reader: ObjectReader, snapshot: Snapshot, repositories: dict[bytes, TreeEntry], *, their: bool
    ) -> dict[bytes, TreeEntry]:
        """Returns the selected files. Each selected `.git` goes to `repositories`, without its contents."""
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
                raise ToolError(
                    f"The paths select more than {MAX_FILES:,} files.", hint="Merge one folder at a time."
                )
        return found

    def _walk(self, reader: ObjectReader, snapshot: Snapshot, *, their: bool) -> Iterator[tuple[bytes, TreeEntry]]:
        """Yields every visible entry of a snapshot. Folders named `.git` are not entered.

        Mixing index, refs and objects of two repositories would corrupt both, so a `.git` is never merged file by
        file.
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
        request = self._request
        known = MergeRecords(
            self._provenance.origins_of(request.agent, path, request.peer),
            self._provenance.origins_of(request.peer, path, request.agent),
        )
        base = common_ancestor(histories[0], histories[1], path, path, known)

        def read(entry: TreeEntry) -> bytes:
            if entry.size > request.limits.file_bytes:
                raise _TooLarge
            return reader.content(entry)

        try:
            decision = decide_merge(base, ours, theirs, read, self._names, prefer=request.prefer)
        except _TooLarge:
            decision = MergeDecision(
                MergeOutcome.KEPT, f"larger than {request.limits.file_bytes:,} bytes: copy it with a command"
            )
        except DamagedObjectError as damage:
            decision = MergeDecision(MergeOutcome.KEPT, damage.message)
        item = MergeItem(path, decision, ours, theirs, base)
        return (
            self._take_theirs_from_copy(item, histories[0], known.ours, read)
            if request.prefer is Side.THEIRS
            else item
        )

    def _take_theirs_from_copy(
        self, item: MergeItem, history: AgentHistory, merged: Sequence[MergeOrigin], read: ReadEntry
    ) -> MergeItem:
        """Takes their version if an earlier merge put it beside ours and the copy still exists."""
        theirs = item.theirs
        if theirs is None or not merged or merged[0].outcome != MergeOutcome.CONFLICT:
            return item
        names = (self._request.suffix, f"{self._request.suffix}-{merged[0].snapshot[:SHORT_ID_CHARS]}")
        beside = [
            (name, history.entry(self._request.ours, name)) for name in (item.path + os.fsencode(n) for n in names)
        ]
        there = [(name, entry) for name, entry in beside if entry is not None]
        untouched = next((copy for copy in there if copy[1].ref == merged[0].digest), None)
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
    """The file is larger than the limit for reading."""


def _is_unrelated(item: MergeItem) -> bool:
    """Whether the file was never the peer's, or neither side has it."""
    return item.theirs is None and item.base is None


def _with_renames(items: list[MergeItem]) -> list[MergeItem]:
    """Moves our changed file to the new name if the peer renamed it without changing it."""
    new = {item.theirs.ref: item for item in items if item.decision.outcome is MergeOutcome.ADDED and item.theirs}
    done: dict[bytes, MergeItem] = {}
    for item in items:
        is_kept = item.decision.outcome is MergeOutcome.KEPT and item.theirs is None and item.ours is not None
        target = new.get(item.base.ref) if is_kept and item.base is not None else None
        if target is not None and target.path not in done:
            renamed = MergeDecision(MergeOutcome.MERGED, f"renamed there from {os.fsdecode(item.path)}, changed here")
            done[target.path] = replace(target, decision=renamed, ours=item.ours, old_path=item.path)
    gone = {item.old_path for item in done.values()}
    return [done.get(item.path, item) for item in items if item.path not in gone]
