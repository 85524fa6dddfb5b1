"""What of an agent's files its peers get to see.

The rules of the configuration are the same for every agent. A file that they hide from the agent itself, or that they
would hide at the place where its peers find it, is not published: inside a sandbox nobody asks the policy again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace

from toolyard.core.agent_folder_names import AGENTS
from toolyard.core.paths import is_beneath
from toolyard.core.permission_modes import Access, PermissionMode
from toolyard.policy.policy import Policy
from toolyard.policy.roots import ContextPath
from toolyard.sharing.manifest import NOTE
from toolyard.snapshots.store.objects import Entry, Kind
from toolyard.workspace.layout import MEMORY, SERVERS, SHARED, SKILLS, TASKS, TOOLS, former_trees

_OUR_LINKS = frozenset(name.encode() for name in (SERVERS, TOOLS, SKILLS, MEMORY, TASKS, SHARED))
_BOOT = "/proc/sys/kernel/random/boot_id"
_STAMP_BYTES = 12


class Filter:
    """Which entries of one agent's snapshots are shown to others."""

    def __init__(self, policy: Policy, *, workspace: str, root: str, place: str) -> None:
        """`workspace` is the agent's, `root` the layout's, `place` where its peers see the tree. Real paths."""
        # Modes ask and allow; here only what the rules say counts, and who would have to ask is not asked.
        self._policy = replace(
            policy,
            mode=PermissionMode.STRICT,
            workspace=workspace,
            context=(ContextPath(os.path.dirname(place), Access.READ),),
            extra_roots=(),
            protected=(),
        )
        self._workspace = workspace
        self._place = place
        self._root = os.fsencode(root) + b"/"
        self._closed = tuple(path for path in _of_the_layout(workspace, root, place) if is_beneath(path, workspace))
        self.stamp = stamp_of((rule.identity for rule in policy.rules), workspace, root, place)

    def shows(self, folder: bytes, entry: Entry) -> bool:
        """Whether an entry of `folder` (relative to the workspace) is shown."""
        if entry.kind is Kind.SKIPPED:
            return False
        if not folder and (os.fsdecode(entry.name) == NOTE or self._is_our_link(entry)):
            return False
        path = os.fsdecode(folder + b"/" + entry.name if folder else entry.name)
        if any(is_beneath(f"{self._workspace}/{path}", closed) for closed in self._closed):
            return False
        visible = self._policy.visible
        return visible(f"{self._workspace}/{path}") and visible(f"{self._place}/{path}")

    def shows_path(self, path: bytes) -> bool:
        """The same for a path with all the folders on its way."""
        names = path.split(b"/")
        return all(
            self.shows(b"/".join(names[:at]), Entry(name, Kind.FILE, 0, 0, b"")) for at, name in enumerate(names)
        )

    def _is_our_link(self, entry: Entry) -> bool:
        return entry.kind is Kind.LINK and entry.name in _OUR_LINKS and entry.ref.startswith(self._root)


def stamp_of(rules: Iterable[str], workspace: str, root: str, place: str) -> str:
    """The stamp of a filter by these rules, without making one."""
    text = "\0".join([*sorted(rules), workspace, root, place, _boot()]).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(text, digest_size=_STAMP_BYTES).hexdigest()


def _of_the_layout(workspace: str, root: str, place: str) -> Iterator[str]:
    """Where an agent works around the root, or in it: what is the others' is not published with its own."""
    shared = os.path.dirname(place)
    yield from (shared, former_trees(shared))
    if workspace != root:
        yield root
    else:
        yield from (os.path.join(root, name) for name in (SERVERS, TOOLS, SKILLS, AGENTS, SHARED))


def _boot() -> str:
    """Trees are not synced to disk; those from before the machine last stopped are not built upon."""
    try:
        with open(_BOOT, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
