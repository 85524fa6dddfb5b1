"""Merging files of a peer into one's own workspace, through the Gate: each file written is judged like a Write.

A snapshot is taken first, so that restoring it undoes the merge. A file that has changed since that snapshot, or that
it does not hold, is left alone and told.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass, replace

from toolyard.core.actions import Action, Kind
from toolyard.core.agent_folder_names import folder_name
from toolyard.core.errors import ToolError, ToolyardError, ValidationError
from toolyard.dispatch.call_context import Gate
from toolyard.files import file_io
from toolyard.files.file_io import Contents
from toolyard.files.mounts import Target
from toolyard.files.os_errors import explain
from toolyard.sharing.conflict_markers import Side
from toolyard.sharing.manifest import Published
from toolyard.sharing.merge import Decision, Outcome
from toolyard.sharing.merge_plan import SHORT, Item, Planning, Wish
from toolyard.sharing.path_selection import Selection
from toolyard.sharing.preview import changes_of
from toolyard.sharing.provenance import Origin
from toolyard.sharing.service import Sharing
from toolyard.sharing.undo import undo_paths
from toolyard.snapshots import Change, Snapshot
from toolyard.snapshots.diff.sides import top_of
from toolyard.snapshots.diff.text_diff import DiffLimits
from toolyard.snapshots.restore.file_writer import Kept, remove
from toolyard.snapshots.store.models import Damaged
from toolyard.snapshots.store.object_reader import ObjectReader

_RECORDED = frozenset({Outcome.ADDED, Outcome.MERGED, Outcome.CONFLICT})
_CHANGED = "it has changed since the merge began"


@dataclass(frozen=True, slots=True)
class MergeReport:
    peer: str
    theirs: Snapshot
    before: Snapshot
    """Taken first: restoring the paths of `undo` from it undoes the merge."""
    items: tuple[Item, ...]
    written: dict[bytes, str]
    """Where a file was put that went beside another."""
    undo: tuple[str, ...] = ()
    """The paths to restore from `before`; none when nothing was changed."""
    repositories: tuple[str, ...] = ()
    """Of the peer, in its workspace, whose `.git` was left alone."""


def peer_of(sharing: Sharing, name: str) -> tuple[str, Published]:
    """A peer and what it has published."""
    peers = sharing.peers
    agent = next((agent for agent in peers.agents if name in {agent, folder_name(agent)}), None)
    if agent is None:
        known = ", ".join(peers.agents) or "none"
        raise ValidationError.of("peer", f'there is no other agent "{name[:100]}"', hint=f"The peers are: {known}.")
    note = peers.published(agent)
    if note is None:
        raise ToolError(
            f"{agent} has shared nothing yet.", hint="It does with its first change. Try again after that."
        )
    return agent, note


class Merge:
    def __init__(self, gate: Gate, sharing: Sharing, peer: str) -> None:
        self._gate = gate
        self._sharing = sharing
        self._peer, self._note = peer_of(sharing, peer)
        self._place = sharing.peers.place(self._peer)
        self._suffix = f".from-{folder_name(self._peer)}"
        self._changed: set[bytes] = set()

    def run(self, paths: list[str], *, dry_run: bool, prefer: Side | None = None) -> MergeReport:
        gate, sharing = self._gate, self._sharing
        places = (f"{sharing.prefix}/{folder_name(self._peer)}", self._place)
        selection = Selection(paths, places, gate.limits)
        gate.require(Action(Kind.READ, gate.call.tool, self._place, self._place, agent=gate.call.agent))
        before = gate.snapshots.create(reason=f"before merging from {self._peer}", check=gate.check_time).snapshot
        theirs = gate.snapshots.store.get(self._note.snapshot)
        wish = Wish(
            *(sharing.home.agent, self._peer, before, theirs, sharing.filter_for(self._peer, theirs.root)),
            visible=lambda path: gate.visible(f"{self._place}/{path}"),
            selection=selection,
            limits=gate.limits,
            prefer=prefer,
            suffix=self._suffix,
        )
        plan = Planning(gate.snapshots.store, sharing.provenance, wish, gate.check_time).run()
        # Everything is judged before anything is changed: after a question the whole of it runs again.
        items = [self._judged(item) for item in plan.items]
        written: dict[bytes, str] = {}
        if not dry_run:
            items = self._all_done(items, written)
        return MergeReport(
            self._peer, theirs, before, tuple(items), written, self._undo(before), repositories=plan.repositories
        )

    def _undo(self, before: Snapshot) -> tuple[str, ...]:
        if not self._changed:
            return ()
        with self._gate.snapshots.store.reader() as reader:
            try:
                found = undo_paths(self._changed, top_of(before), reader)
            except Damaged:  # what came with a folder cannot be told then
                found = sorted(self._changed)
        return tuple(os.fsdecode(path) for path in found)

    def changes(self, report: MergeReport, limits: DiffLimits) -> tuple[Change, ...]:
        """What the merge brings, or brought, in files of ours that may be read."""
        workspace = self._sharing.home.workspace
        seen = [item for item in report.items if self._gate.visible(f"{workspace}/{os.fsdecode(item.path)}")]
        with self._gate.snapshots.store.reader() as reader:
            return changes_of(seen, reader.content, self._suffix, limits)

    def _judged(self, item: Item) -> Item:
        if not item.is_change:
            return item
        try:
            for path in self._touched(item):
                self._gate.target(path, Kind.WRITE).close()
        except ToolyardError as error:
            return replace(item, decision=Decision(Outcome.KEPT, error.message))
        return item

    def _touched(self, item: Item) -> list[str]:
        path = os.fsdecode(item.path)
        if item.decision.beside:
            return [path + self._suffix]
        more = (item.old_path, item.aside[0] if item.aside is not None else None)
        return [path, *(os.fsdecode(each) for each in more if each is not None)]

    def _all_done(self, items: list[Item], written: dict[bytes, str]) -> list[Item]:
        done: list[Item] = []
        try:
            with self._gate.snapshots.store.reader() as reader:
                for item in items:
                    self._gate.check_time()
                    done.append(self._done(item, reader, written))
        finally:  # a merge that is stopped half way has merged what it has
            self._sharing.provenance.record(self._origin(item) for item in done if _is_recorded(item))
        return done

    def _done(self, item: Item, reader: ObjectReader, written: dict[bytes, str]) -> Item:
        if not item.is_change:
            return item
        try:
            self._apply(item, reader, written)
        except ToolyardError as error:
            return replace(item, decision=Decision(Outcome.KEPT, error.message))
        return item

    def _apply(self, item: Item, reader: ObjectReader, written: dict[bytes, str]) -> None:
        decision, path = item.decision, os.fsdecode(item.path)
        ours = reader.content(item.ours) if item.ours is not None else None
        if decision.beside:
            path = self._beside(path)
            written[item.path] = path
            self._write(path, None, decision)
        elif item.removes:
            self._remove(path, ours)
        elif item.old_path is not None and item.ours is not None:
            self._write(path, None, replace(decision, data=ours, mode=item.ours.mode & 0o777))
            self._remove(os.fsdecode(item.old_path), ours)
        elif decision.data is None:
            with self._gate.target(path, Kind.WRITE) as target:
                self._set_mode(target, decision.mode)
            self._changed.add(item.path)
        else:
            self._write(path, ours, decision)
        if item.aside is not None:
            with contextlib.suppress(ToolyardError):  # somebody works on it after all
                self._remove(os.fsdecode(item.aside[0]), reader.content(item.aside[1]))

    def _write(self, path: str, expected: bytes | None, decision: Decision) -> None:
        gate, data = self._gate, decision.data or b""

        def replaced(before: Contents | None) -> bytes:
            gate.check_time()
            if (before.data if before is not None else None) != expected:
                raise ToolError(_CHANGED if expected is not None else "something is there that no snapshot holds")
            return data

        with gate.target(path, Kind.WRITE) as target:
            file_io.rewrite(target, replaced, gate.limits, gate.may_wait)
            self._changed.add(os.fsencode(path))
            gate.seen.record(gate.call.session, target.real, data)
        if decision.mode is not None:
            with gate.target(path, Kind.WRITE) as target:
                self._set_mode(target, decision.mode)

    def _set_mode(self, target: Target, mode: int | None) -> None:
        if mode is not None and target.exists and target.handle.is_file:
            try:
                os.chmod(f"/proc/self/fd/{target.handle.fd}", mode | stat.S_IRUSR | stat.S_IWUSR)
            except OSError as error:
                raise explain(error, target.path) from error

    def _remove(self, path: str, expected: bytes | None) -> None:
        gate = self._gate
        with gate.target(path, Kind.WRITE) as target:
            if not target.exists:
                return
            folder, name = os.path.split(target.relative)
            try:
                fd = target.root.open_folder(folder or ".")
                try:
                    with file_io.locked((fd,), target.path, gate.limits, gate.may_wait):
                        found = file_io.read(target, gate.limits)
                        if found.data != expected:
                            raise ToolError(_CHANGED)
                        remove(fd, os.fsencode(name), found.status)
                        self._changed.add(os.fsencode(path))
                finally:
                    os.close(fd)
            except Kept as kept:
                raise ToolError(str(kept)) from None
            except OSError as error:
                raise explain(error, target.path) from error

    def _beside(self, path: str) -> str:
        """A free name beside a file; what was put there before may have been worked on."""
        plain = path + self._suffix
        with self._gate.target(plain, Kind.WRITE) as target:
            return f"{plain}-{self._note.snapshot[:SHORT]}" if target.exists else plain

    def _origin(self, item: Item) -> Origin:
        assert item.theirs is not None  # noqa: S101 - for the type checker: `_is_recorded` looked
        return Origin(
            *(self._sharing.home.agent, item.path, self._peer, item.path, self._note.snapshot),
            *(item.theirs.ref, item.decision.outcome.value),
        )


def _is_recorded(item: Item) -> bool:
    return item.theirs is not None and item.is_change and item.decision.outcome in _RECORDED
