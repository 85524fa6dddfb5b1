"""Decides which files of an agent its peers may see.

The configured rules apply to every agent. A file is not published if the rules hide it from the agent itself, or
would hide it at the place where peers read it: inside a sandbox the policy is not asked again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace

from toolyard.core.agent_folder_names import AGENTS
from toolyard.core.paths import is_beneath
from toolyard.core.permission_modes import Access, PermissionMode
from toolyard.policy.policy import ContextPath, Policy
from toolyard.sharing.manifest import MANIFEST_FILE
from toolyard.snapshots.store.objects import EntryKind, TreeEntry
from toolyard.workspace.layout import MEMORY, SERVERS, SHARED, SKILLS, TASKS, TOOLS, previous_trees_folder

_LAYOUT_LINKS = frozenset(name.encode() for name in (SERVERS, TOOLS, SKILLS, MEMORY, TASKS, SHARED))
_BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"
_STAMP_BYTES = 12


class VisibilityFilter:
    """Selects the entries of one agent's snapshots that are shown to others."""

    def __init__(self, policy: Policy, *, workspace: str, root: str, published_folder: str) -> None:
        """`workspace` is the agent's, `root` the layout's, `published_folder` where peers
        see the tree. Real paths.
        """
        # Permission modes add approvals and allowances. Only rules count here, and no approval is asked for.
        self._policy = replace(
            policy,
            mode=PermissionMode.STRICT,
            workspace=workspace,
            context=(ContextPath(os.path.dirname(published_folder), Access.READ),),
            extra_roots=(),
            protected=(),
        )
        self._workspace = workspace
        self._published_folder = published_folder
        self._root = os.fsencode(root) + b"/"
        self._hidden_folders = tuple(
            path for path in _layout_folders(workspace, root, published_folder) if is_beneath(path, workspace)
        )
        self.stamp = filter_stamp((rule.identity for rule in policy.rules), workspace, root, published_folder)

    def shows(self, folder: bytes, entry: TreeEntry) -> bool:
        """Whether an entry of `folder` (relative to the workspace) is shown."""
        if entry.kind is EntryKind.SKIPPED:
            return False
        if not folder and (os.fsdecode(entry.name) == MANIFEST_FILE or self._is_layout_link(entry)):
            return False
        path = os.fsdecode(folder + b"/" + entry.name if folder else entry.name)
        if any(is_beneath(f"{self._workspace}/{path}", closed) for closed in self._hidden_folders):
            return False
        visible = self._policy.is_visible
        return visible(f"{self._workspace}/{path}") and visible(f"{self._published_folder}/{path}")

    def shows_path(self, path: bytes) -> bool:
        """Whether a path and all folders above it are shown."""
        names = path.split(b"/")
        return all(
            self.shows(b"/".join(names[:at]), TreeEntry(name, EntryKind.FILE, 0, 0, b""))
            for at, name in enumerate(names)
        )

    def _is_layout_link(self, entry: TreeEntry) -> bool:
        return entry.kind is EntryKind.LINK and entry.name in _LAYOUT_LINKS and entry.ref.startswith(self._root)


def filter_stamp(rules: Iterable[str], workspace: str, root: str, published_folder: str) -> str:
    """Returns the stamp of a filter with these rules, without creating the filter."""
    text = "\0".join([*sorted(rules), workspace, root, published_folder, _boot_id()]).encode(
        "utf-8", "surrogateescape"
    )
    return hashlib.blake2b(text, digest_size=_STAMP_BYTES).hexdigest()


def _layout_folders(workspace: str, root: str, published_folder: str) -> Iterator[str]:
    """Yields the layout's folders that belong to other agents and may lie inside the agent's workspace."""
    shared = os.path.dirname(published_folder)
    yield from (shared, previous_trees_folder(shared))
    if workspace != root:
        yield root
    else:
        yield from (os.path.join(root, name) for name in (SERVERS, TOOLS, SKILLS, AGENTS, SHARED))


def _boot_id() -> str:
    """Returns the boot id. Trees are not synced to disk, so those from before the last boot are not reused."""
    try:
        with open(_BOOT_ID_FILE, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
