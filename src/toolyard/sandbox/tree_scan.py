"""Looking through a folder for what commands must not see, write or move, before a sandbox shows it.

Everything is looked through: whoever could leave something out by putting enough in front of it would have opened it.
Only past a bound that no usual tree reaches, and where nothing has to be hidden, what is left is told instead
(`Found.unseen`); it is then not to be written.
"""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass, field, replace

from toolyard.policy.sandbox_rules import Seals
from toolyard.sandbox.host_sockets import leads_out
from toolyard.sandbox.spec import Mount

_LOOKED_AT = 1_000_000  # entries, about two seconds
_LONGEST_PATH = 3_500  # bytes; mounts need a little of the 4,095 for themselves


@dataclass(slots=True)
class Found:
    """What of a root is not like the rest of it, each the outer before the inner."""

    hidden: list[str] = field(default_factory=list[str])
    special: list[str] = field(default_factory=list[str])
    """Sockets and pipes that lead to programs of the host."""
    sealed: list[str] = field(default_factory=list[str])
    pinned: list[str] = field(default_factory=list[str])
    movable: list[str] = field(default_factory=list[str])
    """Those of all that lie where commands may write: their folders must be kept from being moved away."""
    unseen: list[str] = field(default_factory=list[str])
    """Folders that were not looked into."""


@dataclass(frozen=True, slots=True)
class _Folder:
    path: str
    writable: bool
    judges_all: bool
    """Everything in it has to be judged, whatever its name."""
    at_once: bool = False
    """It goes before what waits already."""


class Looking:
    """One look at one root. What `skipped` holds is a root too, and is looked at for itself."""

    def __init__(self, seals: Seals, root: Mount, skipped: set[str]) -> None:
        self._seals = seals
        self._skipped = skipped
        self._found = Found()
        self._waiting = deque([_Folder(root.source, root.writable, root.writable and seals.take_in(root.source))])
        self._looked_at = 0

    def found(self) -> Found:
        """Breadth first, but into a repository at once: little lies there, and it matters."""
        waiting, found = self._waiting, self._found
        while waiting:
            if self._looked_at > _LOOKED_AT and not self._seals.hides_something:
                found.unseen += [folder.path for folder in waiting]
                break
            folder = waiting.popleft()
            try:
                self._look_into(folder)
            except FileNotFoundError:
                continue
            except OSError:
                # Closed to us for the moment, or deeper than any path can say: commands get there all the same.
                self._keep(found.hidden, folder.path, folder)
        return found

    def _look_into(self, folder: _Folder) -> None:
        if len(os.fsencode(folder.path)) > _LONGEST_PATH:
            raise OSError(f"too long to be looked into: {folder.path}")
        speaks_of = self._seals.may_speak_of
        hides = self._seals.may_hide_in(folder.path)
        with os.scandir(folder.path) as found:
            entries = list(found)
        self._looked_at += len(entries)
        for entry in entries:
            # Almost everything is a file that nobody speaks of: that has to be told quickly.
            name = entry.name
            if (
                not folder.judges_all
                and not (folder.writable and speaks_of(name))
                and (hides is None or not hides(name))
                and entry.is_file(follow_symlinks=False)
            ):
                continue
            if not entry.is_symlink():
                self._see(entry, folder)

    def _see(self, entry: os.DirEntry[str], folder: _Folder) -> None:
        path = entry.path
        if path in self._skipped:
            return
        if self._seals.hides_something and self._seals.hidden(path):
            self._keep(self._found.hidden, path, folder)
            return
        judged = folder.writable and (folder.judges_all or self._seals.may_speak_of(entry.name))
        if entry.is_dir(follow_symlinks=False):
            self._go_into(path, folder, judged=judged)
        elif not entry.is_file(follow_symlinks=False) and leads_out(path, writable=folder.writable):
            self._keep(self._found.special, path, folder)
        elif judged and self._seals.sealed(path):
            self._keep(self._found.sealed, path, folder)
        elif judged and self._seals.pinned(path):
            self._keep(self._found.pinned, path, folder)

    def _go_into(self, path: str, folder: _Folder, *, judged: bool) -> None:
        inner = _Folder(path, folder.writable, judges_all=False, at_once=folder.at_once)
        if judged and self._seals.sealed(path):
            self._keep(self._found.sealed, path, folder)
            inner = replace(inner, writable=False)  # what is hidden in there is still to be found
        elif judged:
            is_pinned = self._seals.pinned(path)
            if is_pinned:
                self._keep(self._found.pinned, path, folder)
            inner = replace(inner, judges_all=self._seals.take_in(path), at_once=is_pinned or folder.at_once)
        if inner.at_once:
            self._waiting.appendleft(inner)
        else:
            self._waiting.append(inner)

    def _keep(self, among: list[str], path: str, folder: _Folder) -> None:
        among.append(path)
        if folder.writable:
            self._found.movable.append(path)
