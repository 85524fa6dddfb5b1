"""A workspace whose place a fork has taken, for this process and what it starts.

The process leaves for mounts of its own and has the fork of a snapshot at the workspace's path. Whatever opens the
workspace from then on (file tools, sandboxes, MCP servers that are started) works in the fork; policy, paths, state
folder and audit log are the workspace's own. Nobody else sees any of it.

A Forked owns the fork. `close()` takes it away and puts the workspace back. When the process is killed the mounts are
gone at once, and the next one takes the fork's folder away. It is to be made while the process has one thread.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import toolyard
from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.core.closeable import Closeable
from toolyard.core.errors import ConfigError, SystemFault
from toolyard.core.events import CallOutcome
from toolyard.core.paths import is_beneath
from toolyard.linux import mount_namespace
from toolyard.sandbox.manager import own_environment
from toolyard.snapshots.archive.ignore_rules import IgnoreRules
from toolyard.snapshots.forks import Fork, ForkChange, ForkKind, Forks
from toolyard.snapshots.service.format import MARKS, display_path
from toolyard.snapshots.service.history import SnapshotHistory

if TYPE_CHECKING:
    from toolyard.config.models import Config
    from toolyard.snapshots import Snapshot

_FORKS_FOLDER = "forks"
_FOLDER_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class ForkResult:
    """What became of a fork."""

    snapshot: str
    """The one that it was a fork of."""
    how: ForkKind
    missing: tuple[str, ...]
    changes: tuple[ForkChange, ...]
    kept: str = ""
    """The snapshot that holds the changes; empty where they are thrown away."""

    def fields(self) -> dict[str, Any]:
        changes = [{"path": display_path(each.path), "what": MARKS[each.what]} for each in self.changes]
        told = {"snapshot": self.snapshot, "how": self.how.value, "missing": list(self.missing)}
        return {**told, "changes": changes, "kept": self.kept or None}


class ForkSession(Closeable):
    def __init__(self, options: YardOptions, name: str | None, check: Callable[[], None]) -> None:
        """`name`: a snapshot's id, the beginning of one, or "latest"; None: one is taken of now."""
        _check_forkable(options)
        as_user = _enter_mount_namespace()
        # A picture of the fork is none of the workspace: none is taken by itself.
        self.options = replace(options, config=_without_snapshots(options.config))
        with contextlib.ExitStack() as undo:
            # The workspace itself. Not for code, which would have links made in it.
            self._yard = undo.enter_context(Yard.open(replace(self.options, toolset=Toolset.CLAUDE)))
            home, self._snapshots = self._yard.home, self._yard.snapshots
            snapshot = self._base_snapshot(name, check)
            folder = os.path.join(home.state, _FORKS_FOLDER)
            forks = undo.enter_context(Forks(folder, self._snapshots.store, (ForkKind.MOUNTED,), as_user=as_user))
            self.fork: Fork = undo.enter_context(forks.fork(snapshot.id, check=check))
            self._yard.record("fork", f"What follows runs in a fork of snapshot {snapshot.id}.", CallOutcome.OK)
            here = os.open(".", _FOLDER_FLAGS)
            undo.callback(os.close, here)
            mount_namespace.bind(self.fork.path, home.workspace)
            undo.callback(mount_namespace.unbind, home.workspace)
            undo.callback(os.fchdir, here)
            # What is started without a folder of its own would stand in the one that the fork covers.
            at = os.getcwd()
            os.chdir(at if os.path.isdir(at) else home.workspace)
            self._undo = undo.pop_all()

    def end(self, *, keep: bool, check: Callable[[], None]) -> ForkResult:
        """What is not as it was. Nothing may be running in the fork any more. With `keep` a snapshot holds it."""
        place, fork = self._snapshots.location, self.fork
        rules = IgnoreRules(self._snapshots.ignore_rules())
        changes = tuple(each for each in fork.changes() if not _is_excluded(rules, each.path))
        ended = ForkResult(fork.snapshot.id, fork.kind, fork.missing, changes)
        if not keep or not changes:
            return ended
        # Not by the Keeper, who would have it published as the agent's work.
        reason = f"kept from a fork of {fork.snapshot.id}"
        taken = self._snapshots.store.create(place.root, agent=place.agent, reason=reason, check=check)
        self._yard.record("fork", f"Snapshot {taken.snapshot.id} was {reason}.", CallOutcome.OK)
        return replace(ended, kept=taken.snapshot.id)

    def close(self) -> None:
        self._undo.close()

    def _base_snapshot(self, name: str | None, check: Callable[[], None]) -> Snapshot:
        if name is None:
            return self._snapshots.create(reason="before a fork", check=check).snapshot
        return SnapshotHistory(self._snapshots.store, self._snapshots.location.root).get(name)


def _check_forkable(options: YardOptions) -> None:
    workspace = os.path.realpath(options.workspace)
    if options.config.toolyard.code_execution.mode == "docker":
        raise ConfigError(
            "a container would be given the workspace itself, not the fork.",
            hint="Use `code_execution: {mode: bubblewrap}` for forks.",
        )
    if own_environment(workspace) or is_beneath(os.path.realpath(toolyard.__file__), workspace):
        raise ConfigError(
            "Toolyard itself runs from inside this workspace, and a fork would cover its files.",
            hint="Install it elsewhere, or choose another workspace.",
        )


def _enter_mount_namespace() -> bool:
    try:
        return mount_namespace.enter()
    except OSError as error:
        raise SystemFault(
            f"This machine lets us have no mounts of our own, which a fork needs: {error.strerror or error}.",
            hint="Let users create namespaces, or work in a copy of the folder.",
        ) from error


def _without_snapshots(config: Config) -> Config:
    return config.model_copy(update={"snapshots": config.snapshots.model_copy(update={"automatic": False})})


def _is_excluded(rules: IgnoreRules, path: bytes) -> bool:
    """Whether no snapshot would hold it: it, or a folder that it lies in, is ours or a cache."""
    parts = os.fsdecode(path).split("/")
    return any(rules.ignored_names(parts[:at], (), (name,)) for at, name in enumerate(parts))
