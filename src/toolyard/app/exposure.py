"""What of the host's files a sandbox shows, and how: worked out from the policy, by looking at what is there.

A command asks nobody before it opens a file, so what the policy says about single files is said to the kernel: hidden
ones are covered, sealed ones are mounted read-only, and the folders on the way to both are mounted onto themselves,
which keeps them from being moved away.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from toolyard.core.modes import Access, PermissionMode
from toolyard.core.paths import is_beneath
from toolyard.policy.policy import Policy
from toolyard.policy.sealing import Seals
from toolyard.sandbox.spec import Mount

_LOOKED_AT = 20_000  # entries; a repository deeper down than that is one the policy guards by its file tools only
_LOOK_SECONDS = 0.5
_LONGEST_PATH = 3_500  # bytes; mounts need a little of the 4,095 for themselves
_HIDDEN, _SEALED, _PINNED = "hidden", "sealed", "pinned"


@dataclass(frozen=True, slots=True)
class Shown:
    mounts: tuple[Mount, ...]
    """Beside the workspace and inside it, the outer before the inner."""
    hidden: tuple[str, ...]


class Exposure:
    def __init__(self, policy: Policy, seals: Seals, state: str) -> None:
        self._policy = policy
        self._seals = seals
        self._state = state

    def shown(self, *, writable: bool) -> Shown:
        roots = self._roots(writable=writable)
        mounts = {root.source: root for root in roots}
        sources = set(mounts)
        hidden: list[str] = []
        for root in roots:
            for outer in roots:
                for folder in _between(outer.source, root.source):
                    mounts.setdefault(folder, Mount(folder, writable=outer.writable))
            for path, what in self._look(root, sources):
                if what is _HIDDEN:
                    hidden.append(path)
                else:
                    mounts[path] = Mount(path, writable=what is _PINNED)
                for folder in _between(root.source, path):
                    mounts.setdefault(folder, Mount(folder, writable=root.writable))
        if any(is_beneath(self._state, root.source) for root in roots):
            hidden.append(self._state)
        workspace = self._policy.workspace
        for path in hidden:  # what is covered needs no mount below the cover
            mounts = {source: mount for source, mount in mounts.items() if not is_beneath(source, path)}
        ordered = sorted(mounts.values(), key=lambda mount: mount.source.count("/"))
        # The workspace is there anyway, unless another root lies around it and would cover it.
        if ordered[0].source == workspace:
            ordered = ordered[1:]
        return Shown(tuple(ordered), tuple(hidden))

    def _roots(self, *, writable: bool) -> list[Mount]:
        """The workspace and what lies beside it, each path once: of two declarations the stricter counts."""
        roots = [Mount(self._policy.workspace, writable)]
        roots += [
            Mount(entry.path, writable=writable and entry.access is Access.WRITE) for entry in self._policy.context
        ]
        if self._policy.mode is PermissionMode.MODERATE:
            roots += [Mount(path, writable) for path in self._policy.extra_roots]
        there = [root for root in roots if os.path.exists(root.source) and not os.path.islink(root.source)]
        once = {root.source: root for root in sorted(there, key=lambda root: not root.writable)}
        return sorted(once.values(), key=lambda root: root.source.count("/"))

    def _look(self, root: Mount, roots: set[str]) -> Iterator[tuple[str, str]]:
        """What of a root is not like the rest of it. Breadth first, so that what lies near the top is always found.

        A root inside it is looked at for itself. A search for files to hide goes through everything; one for
        repositories, whose hooks are sealed, is bounded.
        """
        seals = self._seals
        if not root.writable and not seals.hides_something:
            return
        until = time.monotonic() + _LOOK_SECONDS
        waiting = [root.source]
        looked_at = 0
        for folder in waiting:
            if not seals.hides_something and (looked_at > _LOOKED_AT or time.monotonic() > until):
                return
            for entry in self._entries(folder):
                looked_at += 1
                if isinstance(entry, str):
                    yield entry, _HIDDEN
                    continue
                if entry.path in roots:
                    continue
                what = self._judge(entry.path, root)
                if what:
                    yield entry.path, what
                if not entry.is_dir(follow_symlinks=False):
                    continue
                if what is _PINNED:  # few, and what lies in them matters: never left out for a want of time
                    yield from self._look(Mount(entry.path, root.writable), roots)
                elif not what:
                    waiting.append(entry.path)

    def _entries(self, folder: str) -> Iterator[os.DirEntry[str] | str]:
        """What lies in a folder, links left out. One that cannot be looked through is itself what has to be hidden.

        It may be closed to us for the moment, or lie deeper than any path can say: commands get there all the same.
        """
        if len(os.fsencode(folder)) > _LONGEST_PATH:
            yield folder
            return
        try:
            entries = [entry for entry in os.scandir(folder) if not entry.is_symlink()]
        except FileNotFoundError:
            return
        except OSError:
            yield folder
            return
        yield from entries

    def _judge(self, path: str, root: Mount) -> str:
        if self._seals.hidden(path):
            return _HIDDEN
        if not root.writable:
            return ""
        if self._seals.sealed(path):
            return _SEALED
        return _PINNED if self._seals.pinned(path) else ""


def _between(root: str, path: str) -> Iterator[str]:
    """The folders from below `root` down to the one that holds `path`."""
    folder = os.path.dirname(path)
    while folder != root and is_beneath(folder, root):
        yield folder
        folder = os.path.dirname(folder)
