"""The scope of a search: its opened start, the policy's filter, and names in three spellings.

ripgrep names files relative to the start; the policy gets absolute paths; results show paths relative to the root. A
SearchScope owns the handle of its start and is used as a context manager.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from toolyard.core.closeable import Closeable
from toolyard.core.paths import relative_to
from toolyard.files.landlocked_process import ConfinedProgram, Confinement
from toolyard.files.os_errors import explain, link_escape_error, not_a_file_error, printable_name
from toolyard.files.roots import BaseFolder, Root, open_beneath
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
        """Returns whether the policy makes the file visible; "" is the start itself."""
        return self._visible(self._prefix + name)

    def relative(self, name: str) -> str:
        """Returns the name relative to the root."""
        return f"{self._base}/{name}" if name and self._base else name or self._base

    def display_path(self, name: str) -> str:
        """Returns the path as results show it."""
        return printable_name(self.root.display_prefix + self.relative(name))

    def run_ripgrep(
        self, options: Iterable[str], *, most: int, passed: tuple[int, ...] = (), glob_field: str = "glob"
    ) -> RipgrepOutput:
        """Runs ripgrep with the base options and these, in the start folder (for a file: in the root)."""
        program = ConfinedProgram(
            (find_ripgrep(), *BASE_OPTIONS, *options),
            folder=self.root.fd if self.is_file else self.handle.fd,
            readable=(self.root.fd,),
            passed=passed,
        )
        return run_ripgrep(program, self.confinement, self.bounds, max_bytes=most, glob_field=glob_field)

    def newest_first(self, names: Iterable[str]) -> list[str]:
        """Sorts the names that exist beneath the root by time, newest first, then by name.

        Each folder is opened once and no link is followed; names that vanished meanwhile are left out.
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
        """Opens `name` as an O_PATH descriptor, from the root and without following any link."""
        inside = self.relative(name) or "."
        return open_beneath(BaseFolder(self.root.fd, self.root.path), inside, links=False)


def _append_with_mtime(rows: list[tuple[int, str]], fd: int, prefix: str, lasts: list[str]) -> None:
    # Deliberately a tight loop: thousands of files may match.
    look = os.stat
    for last in lasts:
        try:
            rows.append((-look(last, dir_fd=fd, follow_symlinks=False).st_mtime_ns, prefix + last))
        except OSError:
            continue
