"""Merges files of a peer into the agent's own workspace; the policy decides about each file as for a Write.

A snapshot is taken first, so that restoring it undoes the merge. A file that has changed since that snapshot, or that
it does not contain, is left alone and reported.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass, replace

from toolyard.core.actions import Action, Kind
from toolyard.core.agent_folder_names import folder_name
from toolyard.core.errors import ToolError, ToolyardError, ValidationError
from toolyard.dispatch.call_context import CallContext
from toolyard.files import file_io
from toolyard.files.file_io import Contents
from toolyard.files.mounts import Target
from toolyard.files.os_errors import explain
from toolyard.sharing.conflict_markers import Side
from toolyard.sharing.manifest import PublicationManifest
from toolyard.sharing.merge import MergeDecision, MergeOutcome
from toolyard.sharing.merge_plan import SHORT_ID_CHARS, MergeItem, MergePlanner, MergeRequest
from toolyard.sharing.path_selection import PathSelection
from toolyard.sharing.preview import preview_changes
from toolyard.sharing.provenance import MergeOrigin
from toolyard.sharing.service import SharingService
from toolyard.sharing.undo import paths_to_restore
from toolyard.snapshots import PathChange, Snapshot
from toolyard.snapshots.diff.sides import root_entry
from toolyard.snapshots.diff.text_diff import DiffLimits
from toolyard.snapshots.restore.file_writer import Skipped, remove_entry
from toolyard.snapshots.store.models import DamagedObjectError
from toolyard.snapshots.store.object_reader import ObjectReader

_RECORDED_OUTCOMES = frozenset({MergeOutcome.ADDED, MergeOutcome.MERGED, MergeOutcome.CONFLICT})
_CHANGED_MESSAGE = "it has changed since the merge began"


@dataclass(frozen=True, slots=True)
class MergeReport:
    """What a merge did, or would do."""

    peer: str
    theirs: Snapshot
    before: Snapshot
    """The snapshot taken first: restoring the paths of `undo` from it undoes the merge."""
    items: tuple[MergeItem, ...]
    written: dict[bytes, str]
    """The new paths of files that were written beside existing ones."""
    undo: tuple[str, ...] = ()
    """The paths to restore from `before`; none if nothing was changed."""
    repositories: tuple[str, ...] = ()
    """Repositories in the peer's workspace whose `.git` was left alone."""


def find_peer(sharing: SharingService, name: str) -> tuple[str, PublicationManifest]:
    """Returns a peer and what it has published."""
    peers = sharing.peers
    agent = next((agent for agent in peers.agents if name in {agent, folder_name(agent)}), None)
    if agent is None:
        known = ", ".join(peers.agents) or "none"
        raise ValidationError.of("peer", f'there is no other agent "{name[:100]}"', hint=f"The peers are: {known}.")
    note = peers.manifest_of(agent)
    if note is None:
        raise ToolError(
            f"{agent} has shared nothing yet.", hint="It does with its first change. Try again after that."
        )
    return agent, note


class PeerMerge:
    """Merges one peer's files for one call."""

    def __init__(self, ctx: CallContext, sharing: SharingService, peer: str) -> None:
        self._ctx = ctx
        self._sharing = sharing
        self._peer, self._published = find_peer(sharing, peer)
        self._peer_folder = sharing.peers.folder_of(self._peer)
        self._suffix = f".from-{folder_name(self._peer)}"
        self._changed_paths: set[bytes] = set()

    def run(self, paths: list[str], *, dry_run: bool, prefer: Side | None = None) -> MergeReport:
        """Plans and checks the merge, and carries it out unless `dry_run`."""
        ctx, sharing = self._ctx, self._sharing
        places = (f"{sharing.prefix}/{folder_name(self._peer)}", self._peer_folder)
        selection = PathSelection(paths, places, ctx.limits)
        ctx.permissions.require(
            Action(Kind.READ, ctx.call.tool, self._peer_folder, self._peer_folder, agent=ctx.call.agent)
        )
        before = ctx.snapshots.create(reason=f"before merging from {self._peer}", check=ctx.check_time).snapshot
        theirs = ctx.snapshots.store.get(self._published.snapshot)
        wish = MergeRequest(
            *(sharing.paths.agent, self._peer, before, theirs, sharing.filter_for(self._peer, theirs.root)),
            is_visible=lambda path: ctx.permissions.is_visible(f"{self._peer_folder}/{path}"),
            selection=selection,
            limits=ctx.limits,
            prefer=prefer,
            suffix=self._suffix,
        )
        plan = MergePlanner(ctx.snapshots.store, sharing.provenance, wish, ctx.check_time).build_plan()
        # Every file is checked before anything changes: after an approval the whole merge runs again.
        items = [self._check_item(item) for item in plan.items]
        written: dict[bytes, str] = {}
        if not dry_run:
            items = self._apply_items(items, written)
        return MergeReport(
            self._peer,
            theirs,
            before,
            tuple(items),
            written,
            self._undo_paths(before),
            repositories=plan.repositories,
        )

    def _undo_paths(self, before: Snapshot) -> tuple[str, ...]:
        if not self._changed_paths:
            return ()
        with self._ctx.snapshots.store.reader() as reader:
            try:
                found = paths_to_restore(self._changed_paths, root_entry(before), reader)
            except DamagedObjectError:  # then it is unknown which folders the merge created
                found = sorted(self._changed_paths)
        return tuple(os.fsdecode(path) for path in found)

    def changes(self, report: MergeReport, limits: DiffLimits) -> tuple[PathChange, ...]:
        """Returns the changes of the merge in those of our files that may be read."""
        workspace = self._sharing.paths.workspace
        seen = [
            item for item in report.items if self._ctx.permissions.is_visible(f"{workspace}/{os.fsdecode(item.path)}")
        ]
        with self._ctx.snapshots.store.reader() as reader:
            return preview_changes(seen, reader.content, self._suffix, limits)

    def _check_item(self, item: MergeItem) -> MergeItem:
        if not item.is_change:
            return item
        try:
            for path in self._touched_paths(item):
                self._ctx.open(path, Kind.WRITE).close()
        except ToolyardError as error:
            return replace(item, decision=MergeDecision(MergeOutcome.KEPT, error.message))
        return item

    def _touched_paths(self, item: MergeItem) -> list[str]:
        path = os.fsdecode(item.path)
        if item.decision.beside:
            return [path + self._suffix]
        more = (item.old_path, item.aside[0] if item.aside is not None else None)
        return [path, *(os.fsdecode(each) for each in more if each is not None)]

    def _apply_items(self, items: list[MergeItem], written: dict[bytes, str]) -> list[MergeItem]:
        done: list[MergeItem] = []
        try:
            with self._ctx.snapshots.store.reader() as reader:
                for item in items:
                    self._ctx.check_time()
                    done.append(self._apply_item(item, reader, written))
        finally:  # an interrupted merge still records the files that it has merged
            self._sharing.provenance.record(self._origin(item) for item in done if _is_recorded(item))
        return done

    def _apply_item(self, item: MergeItem, reader: ObjectReader, written: dict[bytes, str]) -> MergeItem:
        if not item.is_change:
            return item
        try:
            self._write_item(item, reader, written)
        except ToolyardError as error:
            return replace(item, decision=MergeDecision(MergeOutcome.KEPT, error.message))
        return item

    def _write_item(self, item: MergeItem, reader: ObjectReader, written: dict[bytes, str]) -> None:
        decision, path = item.decision, os.fsdecode(item.path)
        ours = reader.content(item.ours) if item.ours is not None else None
        if decision.beside:
            path = self._free_sibling_name(path)
            written[item.path] = path
            self._write_file(path, None, decision)
        elif item.removes:
            self._remove_file(path, ours)
        elif item.old_path is not None and item.ours is not None:
            self._write_file(path, None, replace(decision, data=ours, mode=item.ours.mode & 0o777))
            self._remove_file(os.fsdecode(item.old_path), ours)
        elif decision.data is None:
            with self._ctx.open(path, Kind.WRITE) as target:
                self._set_mode(target, decision.mode)
            self._changed_paths.add(item.path)
        else:
            self._write_file(path, ours, decision)
        if item.aside is not None:
            with contextlib.suppress(ToolyardError):  # it has been changed since
                self._remove_file(os.fsdecode(item.aside[0]), reader.content(item.aside[1]))

    def _write_file(self, path: str, expected: bytes | None, decision: MergeDecision) -> None:
        ctx, data = self._ctx, decision.data or b""

        def new_content(before: Contents | None) -> bytes:
            ctx.check_time()
            if (before.data if before is not None else None) != expected:
                raise ToolError(
                    _CHANGED_MESSAGE if expected is not None else "there is a file that is in no snapshot"
                )
            return data

        with ctx.open(path, Kind.WRITE) as target:
            file_io.rewrite(target, new_content, ctx.limits, ctx.check_can_wait)
            self._changed_paths.add(os.fsencode(path))
            ctx.read_tracker.record(ctx.call.session, target.real, data)
        if decision.mode is not None:
            with ctx.open(path, Kind.WRITE) as target:
                self._set_mode(target, decision.mode)

    def _set_mode(self, target: Target, mode: int | None) -> None:
        if mode is not None and target.exists and target.handle.is_file:
            try:
                os.chmod(f"/proc/self/fd/{target.handle.fd}", mode | stat.S_IRUSR | stat.S_IWUSR)
            except OSError as error:
                raise explain(error, target.path) from error

    def _remove_file(self, path: str, expected: bytes | None) -> None:
        ctx = self._ctx
        with ctx.open(path, Kind.WRITE) as target:
            if not target.exists:
                return
            folder, name = os.path.split(target.relative)
            try:
                fd = target.root.open_folder(folder or ".")
                try:
                    with file_io.lock_folders((fd,), target.path, ctx.limits, ctx.check_can_wait):
                        found = file_io.read(target, ctx.limits)
                        if found.data != expected:
                            raise ToolError(_CHANGED_MESSAGE)
                        remove_entry(fd, os.fsencode(name), found.status)
                        self._changed_paths.add(os.fsencode(path))
                finally:
                    os.close(fd)
            except Skipped as skipped:
                raise ToolError(str(skipped)) from None
            except OSError as error:
                raise explain(error, target.path) from error

    def _free_sibling_name(self, path: str) -> str:
        """Returns a free name beside a file; an earlier sibling may have been edited since."""
        plain = path + self._suffix
        with self._ctx.open(plain, Kind.WRITE) as target:
            return f"{plain}-{self._published.snapshot[:SHORT_ID_CHARS]}" if target.exists else plain

    def _origin(self, item: MergeItem) -> MergeOrigin:
        assert item.theirs is not None  # noqa: S101 - for the type checker: `_is_recorded` looked
        return MergeOrigin(
            *(self._sharing.paths.agent, item.path, self._peer, item.path, self._published.snapshot),
            *(item.theirs.ref, item.decision.outcome.value),
        )


def _is_recorded(item: MergeItem) -> bool:
    return item.theirs is not None and item.is_change and item.decision.outcome in _RECORDED_OUTCOMES
