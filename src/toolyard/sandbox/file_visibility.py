"""Determines which host files a sandbox shows, and how, from the policy and the files that exist.

A command asks no one before it opens a file, so the policy's rules for single files are enforced by the kernel:
hidden files are covered by mounts, sealed ones are mounted read-only, and the folders on the way to both are mounted
onto themselves, which keeps them from being moved away.

Folders in which other programs put sockets (`/tmp`, `/run`) are never shown: connecting to such a socket would act
outside the sandbox, and no mount covers sockets that are created later. The additional roots of `moderate` are shown
read-only; the file tools write to them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from toolyard.core.errors import SecurityError, SystemFault
from toolyard.core.paths import is_beneath
from toolyard.core.permission_modes import Access, PermissionMode
from toolyard.policy.policy import Policy
from toolyard.policy.sandbox_rules import SandboxRules
from toolyard.sandbox.spec import Mount
from toolyard.sandbox.tree_scan import ScanResult, TreeScan

_MAX_MOUNTS = 4_000  # they take the kernel some seconds
_MAX_READ_ONLY_FOLDERS = 100  # with more folders than this, the whole root becomes read-only
_MAX_NAMED_FOLDERS = 3  # of them in a note


@dataclass(frozen=True, slots=True)
class VisibleFiles:
    """The mounts that give a sandbox its view of the host's files."""

    mounts: tuple[Mount, ...]
    """Mounts beside the workspace and inside it, outer ones before inner ones."""
    hidden: tuple[str, ...]
    special: tuple[str, ...] = ()
    note: str = ""
    """A note for the agent, if less is visible or writable than the policy says."""


class FileVisibility:
    """Works out the visible files of one workspace."""

    def __init__(self, policy: Policy, rules: SandboxRules, state: str, socket_folders: Sequence[str] = ()) -> None:
        self._policy = policy
        self._rules = rules
        self._state = state
        self._socket_folders = tuple({os.path.realpath(folder) for folder in socket_folders})

    def visible_files(self, *, writable: bool) -> VisibleFiles:
        """Returns the current mounts.

        Raises SecurityError if the workspace is a folder for other programs' sockets.
        """
        if self._policy.workspace in self._socket_folders:
            raise SecurityError(
                f"Commands and code do not run in {self._policy.workspace}: other programs have their sockets there.",
                hint="Use the file tools, or make a folder in it the workspace.",
            )
        roots = self._roots(writable=writable)
        sources = {root.source for root in roots}
        plan = _MountCollector(roots)
        plan.hidden += {folder for root in sources for folder in self._socket_folders_in(root)}
        plan.add_note(self._omitted_roots_note())
        for root in roots:
            for outer in roots:
                plan.pin(_intermediate_folders(outer.source, root.source), writable=outer.writable)
        for root in roots:
            plan.add_scan(root, TreeScan(self._rules, root, sources).scan())
        if self._state not in plan.hidden and any(is_beneath(self._state, root.source) for root in roots):
            plan.hidden.append(self._state)
        plan.reduce_mounts()
        return plan.build(self._policy.workspace, workspace_writable=writable)

    def _roots(self, *, writable: bool) -> list[Mount]:
        """Returns the workspace and the other roots, each path once with the stricter of its declarations."""
        roots = [Mount(self._policy.workspace, writable)]
        roots += [
            Mount(entry.path, writable=writable and entry.access is Access.WRITE) for entry in self._policy.context
        ]
        if self._policy.mode is PermissionMode.MODERATE:
            declared = {root.source for root in roots}
            roots += [Mount(path) for path in self._policy.extra_roots if path not in declared]
        there = [
            root
            for root in roots
            if os.path.exists(root.source) and not os.path.islink(root.source) and self._may_show(root.source)
        ]
        once = {root.source: root for root in sorted(there, key=lambda root: not root.writable)}
        return sorted(once.values(), key=lambda root: root.source.count("/"))

    def _may_show(self, root: str) -> bool:
        """Whether a root may be shown: it is not a socket folder, and hiding one inside it hides no other root."""
        if root == self._policy.workspace:
            return True
        others = [self._policy.workspace, *(entry.path for entry in self._policy.context)]
        inside = self._socket_folders_in(root)
        return root not in self._socket_folders and not any(
            is_beneath(other, folder) for other in others for folder in inside
        )

    def _omitted_roots_note(self) -> str:
        paths = sorted({entry.path for entry in self._policy.context if not self._may_show(entry.path)})
        if not paths:
            return ""
        return f"Not shown to commands, because other programs have sockets there: {', '.join(paths)}."

    def _socket_folders_in(self, root: str) -> list[str]:
        return [folder for folder in self._socket_folders if is_beneath(folder, root) and os.path.isdir(folder)]


class _MountCollector:
    """Collects the mounts of a sandbox, by path."""

    def __init__(self, roots: list[Mount]) -> None:
        self._roots = {root.source: root for root in roots}
        self._mounts = dict(self._roots)
        self.hidden: list[str] = []
        self._special: list[str] = []
        self._notes: list[str] = []

    def add_note(self, text: str) -> None:
        if text:
            self._notes.append(text)

    def pin(self, folders: Iterable[str], *, writable: bool) -> None:
        """Mounts folders onto themselves, which keeps them from being moved away."""
        for folder in folders:
            self._mounts.setdefault(folder, Mount(folder, writable=writable))

    def add_scan(self, root: Mount, scan: ScanResult) -> None:
        self.hidden += scan.hidden
        self._special += scan.special
        self._mounts |= {path: Mount(path, writable=True) for path in scan.pinned}
        self._mounts |= {path: Mount(path) for path in scan.sealed}
        for path in scan.in_writable_folders:
            self.pin(_intermediate_folders(root.source, path), writable=True)
        if scan.unscanned and root.writable:
            closed = self._make_read_only(root, {_top_entry(root.source, path) for path in scan.unscanned})
            self._notes.append(f"{closed} read-only for commands: there are too many files to scan.")
        elif scan.unscanned:
            self._notes.append(f"{root.source} is too large to scan: sockets in it can be reached.")

    def reduce_mounts(self) -> None:
        """Makes whole folders read-only if there are too many mounts, those with the most mounts first."""
        closed: list[str] = []
        for root in [root for root in self._roots.values() if root.writable]:
            if self._count() <= _MAX_MOUNTS:
                break
            inner = Counter(
                _top_entry(root.source, path) for path in self._mounts if self._innermost_root(path) == root.source
            )
            del inner[root.source]
            tops: set[str] = set()
            left = self._count()
            for top, count in inner.most_common(_MAX_READ_ONLY_FOLDERS):
                if left <= _MAX_MOUNTS:
                    break
                tops.add(top)
                left -= count - 1
            whole = left > _MAX_MOUNTS
            closed.append(self._make_read_only(root, {root.source} if whole else tops))
        if closed:
            why = "too many repositories or files would have to be protected one by one."
            self._notes.append(f"{'; '.join(closed)} read-only for commands: {why}")
        if self._count() > _MAX_MOUNTS:
            message = (
                f"{self._count():,} files and folders would have to be hidden one by one; {_MAX_MOUNTS:,} can be."
            )
            raise SystemFault(
                message, hint="Move them into a few folders, and name those in the rules that hide them."
            )

    def build(self, workspace: str, *, workspace_writable: bool) -> VisibleFiles:
        hidden = set(self.hidden)
        sealed = {path for path, mount in self._mounts.items() if not mount.writable and path not in self._roots}
        mounts = [
            mount
            for path, mount in self._mounts.items()
            if not _is_below(path, hidden) and (not mount.writable or not self._is_inside_sealed(path, sealed))
        ]
        ordered = sorted(mounts, key=lambda mount: mount.source.count("/"))
        # The workspace is mounted anyway, unless another root contains it and would cover it.
        if ordered and ordered[0] == Mount(workspace, workspace_writable):
            ordered = ordered[1:]
        return VisibleFiles(tuple(ordered), tuple(self.hidden), tuple(self._special), " ".join(self._notes))

    def _count(self) -> int:
        return len(self._mounts) + len(self.hidden) + len(self._special)

    def _innermost_root(self, path: str) -> str:
        """Returns the innermost root that contains `path`."""
        return max((source for source in self._roots if is_beneath(path, source)), key=len)

    def _is_inside_sealed(self, path: str, sealed: set[str]) -> bool:
        """Whether a pinned folder lies in a sealed one: there it cannot move, and pinning would make it writable."""
        if path in self._roots:
            return False
        owner = self._innermost_root(path)
        return any(folder in sealed for folder in _intermediate_folders(owner, path))

    def _make_read_only(self, root: Mount, folders: set[str]) -> str:
        """Makes folders of a root read-only with all their content, except other roots. Returns a description."""
        if len(folders) > _MAX_READ_ONLY_FOLDERS:
            folders = {root.source}
        for path in [path for path in self._mounts if _is_below(path, folders)]:
            if self._innermost_root(path) == root.source:
                del self._mounts[path]
        self._mounts |= {folder: Mount(folder) for folder in folders}
        named = sorted(folders)[:_MAX_NAMED_FOLDERS]
        more = [f"{len(folders) - _MAX_NAMED_FOLDERS} other folders"] if len(folders) > _MAX_NAMED_FOLDERS else []
        return f"{' and '.join([', '.join(named), *more])} {'are' if len(folders) > 1 else 'is'}"


def _intermediate_folders(root: str, path: str) -> Iterator[str]:
    """Yields the folders between `root` and `path`, without either."""
    folder = os.path.dirname(path)
    while folder != root and is_beneath(folder, root):
        yield folder
        folder = os.path.dirname(folder)


def _top_entry(root: str, path: str) -> str:
    """Returns the entry of `root` that contains `path` or is `path`."""
    if path == root:
        return root
    start = len(root.rstrip("/")) + 1
    end = path.find("/", start)
    return path if end < 0 else path[:end]


def _is_below(path: str, folders: set[str]) -> bool:
    """Whether one of the folders is `path` or contains it."""
    while path not in folders:
        if path == "/":
            return False
        path = os.path.dirname(path)
    return True
