"""Scans a folder for paths that commands must not see, write or move, before a sandbox mounts it.

The scan covers everything: otherwise a protected file could be exposed by putting enough entries in front of it. Only
past a bound that no usual tree reaches, and if nothing has to be hidden, the remaining folders are reported in
`ScanResult.unscanned` instead; they must then not be writable.
"""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass, field, replace

from toolyard.policy.sandbox_rules import SandboxRules
from toolyard.sandbox.host_sockets import reaches_host_program
from toolyard.sandbox.spec import Mount

_MAX_ENTRIES = 1_000_000  # entries, about two seconds
_MAX_PATH_BYTES = 3_500  # bytes; mounts need a little of the 4,095 for themselves


@dataclass(slots=True)
class ScanResult:
    """The paths of a root that need special treatment, outer paths before inner ones."""

    hidden: list[str] = field(default_factory=list[str])
    special: list[str] = field(default_factory=list[str])
    """Sockets and pipes that lead to programs of the host."""
    sealed: list[str] = field(default_factory=list[str])
    pinned: list[str] = field(default_factory=list[str])
    in_writable_folders: list[str] = field(default_factory=list[str])
    """All of these paths that lie in writable folders: their parent folders must be kept from being moved away."""
    unscanned: list[str] = field(default_factory=list[str])
    """Folders that were not scanned."""


@dataclass(frozen=True, slots=True)
class _PendingFolder:
    path: str
    writable: bool
    checks_all: bool
    """Every entry has to be checked, whatever its name."""
    is_priority: bool = False
    """It is scanned before the folders that already wait."""


class TreeScan:
    """One scan of one root. The paths in `skipped` are roots themselves and are scanned separately."""

    def __init__(self, rules: SandboxRules, root: Mount, skipped: set[str]) -> None:
        self._rules = rules
        self._skipped = skipped
        self._result = ScanResult()
        self._pending = deque(
            [_PendingFolder(root.source, root.writable, root.writable and rules.covers_folder(root.source))]
        )
        self._entry_count = 0

    def scan(self) -> ScanResult:
        """Scans breadth first, but repositories immediately: they are small and important."""
        waiting, found = self._pending, self._result
        while waiting:
            if self._entry_count > _MAX_ENTRIES and not self._rules.has_hiding_rules:
                found.unscanned += [folder.path for folder in waiting]
                break
            folder = waiting.popleft()
            try:
                self._scan_folder(folder)
            except FileNotFoundError:
                continue
            except OSError:
                # Unreadable for the moment, or deeper than a path can be: commands could still get there.
                self._add_path(found.hidden, folder.path, folder)
        return found

    def _scan_folder(self, folder: _PendingFolder) -> None:
        if len(os.fsencode(folder.path)) > _MAX_PATH_BYTES:
            raise OSError(f"path too long to scan: {folder.path}")
        speaks_of = self._rules.may_match_name
        hides = self._rules.hidden_name_filter(folder.path)
        with os.scandir(folder.path) as found:
            entries = list(found)
        self._entry_count += len(entries)
        for entry in entries:
            # Almost every entry is a file that no rule mentions: this test has to be fast.
            name = entry.name
            if (
                not folder.checks_all
                and not (folder.writable and speaks_of(name))
                and (hides is None or not hides(name))
                and entry.is_file(follow_symlinks=False)
            ):
                continue
            if not entry.is_symlink():
                self._classify_entry(entry, folder)

    def _classify_entry(self, entry: os.DirEntry[str], folder: _PendingFolder) -> None:
        path = entry.path
        if path in self._skipped:
            return
        if self._rules.has_hiding_rules and self._rules.is_hidden(path):
            self._add_path(self._result.hidden, path, folder)
            return
        judged = folder.writable and (folder.checks_all or self._rules.may_match_name(entry.name))
        if entry.is_dir(follow_symlinks=False):
            self._queue_folder(path, folder, judged=judged)
        elif not entry.is_file(follow_symlinks=False) and reaches_host_program(path, writable=folder.writable):
            self._add_path(self._result.special, path, folder)
        elif judged and self._rules.is_write_protected(path):
            self._add_path(self._result.sealed, path, folder)
        elif judged and self._rules.is_move_protected(path):
            self._add_path(self._result.pinned, path, folder)

    def _queue_folder(self, path: str, folder: _PendingFolder, *, judged: bool) -> None:
        inner = _PendingFolder(path, folder.writable, checks_all=False, is_priority=folder.is_priority)
        if judged and self._rules.is_write_protected(path):
            self._add_path(self._result.sealed, path, folder)
            inner = replace(inner, writable=False)  # hidden files inside it must still be found
        elif judged:
            is_pinned = self._rules.is_move_protected(path)
            if is_pinned:
                self._add_path(self._result.pinned, path, folder)
            inner = replace(
                inner, checks_all=self._rules.covers_folder(path), is_priority=is_pinned or folder.is_priority
            )
        if inner.is_priority:
            self._pending.appendleft(inner)
        else:
            self._pending.append(inner)

    def _add_path(self, among: list[str], path: str, folder: _PendingFolder) -> None:
        among.append(path)
        if folder.writable:
            self._result.in_writable_folders.append(path)
