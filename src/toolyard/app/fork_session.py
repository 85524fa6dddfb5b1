"""Runs a process in a fork of its workspace.

The process enters its own mount namespace and mounts the fork of a snapshot over the workspace's path. File tools,
sandboxes and MCP servers that open the workspace afterwards work in the fork; policy, paths, state folder and audit
log stay those of the workspace. Other processes see none of it.

A ForkSession owns the fork: `close()` removes it and unmounts it. If the process is killed the kernel drops the
mounts, and the next session removes the fork's folder. Create it while the process has a single thread.
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
    """The changes made in a fork, and the snapshot that holds them."""

    snapshot: str
    """The id of the snapshot that was forked."""
    how: ForkKind
    missing: tuple[str, ...]
    changes: tuple[ForkChange, ...]
    kept: str = ""
    """The id of the snapshot that holds the changes; empty if they were discarded."""

    def fields(self) -> dict[str, Any]:
        """Returns the result as JSON fields."""
        changes = [{"path": display_path(each.path), "what": MARKS[each.what]} for each in self.changes]
        result = {"snapshot": self.snapshot, "how": self.how.value, "missing": list(self.missing)}
        return {**result, "changes": changes, "kept": self.kept or None}


class ForkSession(Closeable):
    """A fork mounted over its workspace for as long as the session is open."""

    def __init__(self, options: YardOptions, name: str | None, check: Callable[[], None]) -> None:
        """Opens a fork of the snapshot `name`: an id, a prefix of one, or "latest"; None takes a new snapshot
        first.
        """
        _check_forkable(options)
        as_user = _enter_mount_namespace()
        # A snapshot of the fork would count as one of the workspace, so automatic snapshots are off.
        self.options = replace(options, config=_without_snapshots(options.config))
        with contextlib.ExitStack() as undo:
            # The Claude toolset: code mode would create links in the workspace itself.
            self._yard = undo.enter_context(Yard.open(replace(self.options, toolset=Toolset.CLAUDE)))
            home, self._snapshots = self._yard.home, self._yard.snapshots
            snapshot = self._base_snapshot(name, check)
            folder = os.path.join(home.state, _FORKS_FOLDER)
            forks = undo.enter_context(Forks(folder, self._snapshots.store, (ForkKind.MOUNTED,), as_user=as_user))
            self.fork: Fork = undo.enter_context(forks.fork(snapshot.id, check=check))
            self._yard.record("fork", f"The following calls run in a fork of snapshot {snapshot.id}.", CallOutcome.OK)
            here = os.open(".", _FOLDER_FLAGS)
            undo.callback(os.close, here)
            mount_namespace.bind(self.fork.path, home.workspace)
            undo.callback(mount_namespace.unbind, home.workspace)
            undo.callback(os.fchdir, here)
            # Child processes inherit the current folder, which must be the fork and not the folder below the mount.
            at = os.getcwd()
            os.chdir(at if os.path.isdir(at) else home.workspace)
            self._undo = undo.pop_all()

    def end(self, *, keep: bool, check: Callable[[], None]) -> ForkResult:
        """Returns the changes in the fork; with `keep`, stores them as a snapshot. No process may still run in the
        fork.
        """
        location, fork = self._snapshots.location, self.fork
        rules = IgnoreRules(self._snapshots.ignore_rules())
        changes = tuple(each for each in fork.changes() if not _is_excluded(rules, each.path))
        ended = ForkResult(fork.snapshot.id, fork.kind, fork.missing, changes)
        if not keep or not changes:
            return ended
        # Stored directly: an automatic snapshot would be published as the agent's work.
        reason = f"kept from a fork of {fork.snapshot.id}"
        taken = self._snapshots.store.create(location.root, agent=location.agent, reason=reason, check=check)
        self._yard.record("fork", f"Snapshot {taken.snapshot.id} was {reason}.", CallOutcome.OK)
        return replace(ended, kept=taken.snapshot.id)

    def close(self) -> None:
        """Unmounts and removes the fork."""
        self._undo.close()

    def _base_snapshot(self, name: str | None, check: Callable[[], None]) -> Snapshot:
        if name is None:
            return self._snapshots.create(reason="before a fork", check=check).snapshot
        return SnapshotHistory(self._snapshots.store, self._snapshots.location.root).get(name)


def _check_forkable(options: YardOptions) -> None:
    workspace = os.path.realpath(options.workspace)
    if options.config.toolyard.code_execution.mode == "docker":
        raise ConfigError(
            "a container would mount the workspace itself, not the fork.",
            hint="Use `code_execution: {mode: bubblewrap}` for forks.",
        )
    if own_environment(workspace) or is_beneath(os.path.realpath(toolyard.__file__), workspace):
        raise ConfigError(
            "Toolyard itself is installed inside this workspace, and a fork would hide its files.",
            hint="Install it in another folder, or choose another workspace.",
        )


def _enter_mount_namespace() -> bool:
    try:
        return mount_namespace.enter()
    except OSError as error:
        raise SystemFault(
            f"A fork needs its own mount namespace, which this machine does not allow: {error.strerror or error}.",
            hint="Allow users to create namespaces, or work in a copy of the folder.",
        ) from error


def _without_snapshots(config: Config) -> Config:
    return config.model_copy(update={"snapshots": config.snapshots.model_copy(update={"automatic": False})})


def _is_excluded(rules: IgnoreRules, path: bytes) -> bool:
    """Whether snapshots leave the path out, because it or a parent folder is excluded."""
    parts = os.fsdecode(path).split("/")
    return any(rules.ignored_names(parts[:at], (), (name,)) for at, name in enumerate(parts))
