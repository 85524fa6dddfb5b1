"""Where a search starts and what it may show: the opened start, the policy's filter, and names in three spellings.

A name comes from ripgrep relative to the start; the policy sees it as an absolute path; a result shows it
relative to the root. A Scope owns the handle of its start and is used as a context manager.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from toolyard.core.closeable import Closeable
from toolyard.core.paths import relative_to
from toolyard.files.landlocked_process import ConfinedProgram, Confinement
from toolyard.files.os_errors import explain, link_escape_error, not_a_file_error, printable_name
from toolyard.files.path_resolver import BaseFolder, open_beneath
from toolyard.files.roots import Root
from toolyard.files.search.ripgrep import BASE_OPTIONS, RipgrepOutput, SearchBounds, find_ripgrep, run_ripgrep

Visible = Callable[[str], bool]


class SearchScope(Closeable):
    """A start that was opened beneath the root: a folder, or one file."""

    def __init__(
        self, root: Root, start: str, visible: Visible, bounds: SearchBounds, confinement: Confinement
    ) -> None:
        self.root = root
        self.bounds = bounds
        self.confinement = confinement
        self._visible = visible
        try:
            self.handle = root.open(start)
        except OSError as error:
            raise explain(error, start) from error
        try:
            if not (self.handle.is_folder or self.handle.is_file):
                raise not_a_file_error(self.handle.status.st_mode, start)
            base = relative_to(self.handle.real, root.path)
            if base is None:
                raise link_escape_error(start)
        except BaseException:
            self.handle.close()
            raise
        self._base = "" if base == "." else base
        self._prefix = self.handle.real if self.is_file else self.handle.real.rstrip("/") + "/"

    def close(self) -> None:
        self.handle.close()

    @property
    def is_file(self) -> bool:
        return self.handle.is_file

    def allows(self, name: str) -> bool:
        """Whether the policy lets the file be seen; "" is the start itself."""
        return self._visible(self._prefix + name)

    def relative(self, name: str) -> str:
        """The name as the root knows it."""
        return f"{self._base}/{name}" if name and self._base else name or self._base

    def display_path(self, name: str) -> str:
        """The name as results show it."""
        return printable_name(self.root.display_prefix + self.relative(name))

    def run_ripgrep(
        self, options: Iterable[str], *, most: int, passed: tuple[int, ...] = (), glob_field: str = "glob"
    ) -> RipgrepOutput:
        """Ripgrep with our options and then these, standing in the start (for a file: in the root)."""
        program = ConfinedProgram(
            (find_ripgrep(), *BASE_OPTIONS, *options),
            folder=self.root.fd if self.is_file else self.handle.fd,
            readable=(self.root.fd,),
            passed=passed,
        )
        return run_ripgrep(program, self.confinement, self.bounds, max_bytes=most, glob_field=glob_field)

    def newest_first(self, names: Iterable[str]) -> list[str]:
        """The names that really are there beneath the root, the newest first; those of one moment by name.

        Each folder is opened once and no link is followed; what vanished meanwhile is left out.
        """
        by_folder: dict[str, list[str]] = {}
        for name in names:
            folder, _, last = name.rpartition("/")
            by_folder.setdefault(folder, []).append(last)
        rows: list[tuple[int, str]] = []
        for folder, lasts in by_folder.items():
            try:
                fd = self.open(folder)
            except OSError:
                continue
            try:
                _append_with_mtime(rows, fd, folder + "/" if folder else "", lasts)
            finally:
                os.close(fd)
        rows.sort()
        return [name for _, name in rows]

    def open(self, name: str) -> int:
        """An O_PATH descriptor of what `name` is now, reached from the root without any link."""
        inside = self.relative(name) or "."
        return open_beneath(BaseFolder(self.root.fd, self.root.path), inside, links=False)


def _append_with_mtime(rows: list[tuple[int, str]], fd: int, prefix: str, lasts: list[str]) -> None:
    # A tight loop on purpose: thousands of files may match.
    look = os.stat
    for last in lasts:
        try:
            rows.append((-look(last, dir_fd=fd, follow_symlinks=False).st_mtime_ns, prefix + last))
        except OSError:
            continue
