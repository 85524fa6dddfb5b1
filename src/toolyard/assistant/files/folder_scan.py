"""Lists the files of a folder with ripgrep: respects .gitignore, does not follow links, and skips `.git`.

The order is stable, and the names take no more than a few megabytes. Files are opened without following links, so
each lies where its name says and is judged by that name.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from toolyard.core.errors import ToolError
from toolyard.core.limits import MIB
from toolyard.dispatch.call_context import CallContext
from toolyard.files import landlocked_process
from toolyard.files.mounts import Target
from toolyard.files.os_errors import printable_name
from toolyard.files.roots import Root
from toolyard.files.search.ripgrep import LAST_GLOBS, SearchBounds, StopReason
from toolyard.files.search.ripgrep_output import WALKED, parse_names
from toolyard.files.search.scope import SearchScope

_NAMES_BYTES = 4 * MIB
_GIT = ".git"
_MOST_LINKS, _MOST_FOLDERS = 100, 5_000


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """A listed file that has not been opened yet."""

    root: Root
    relative: str
    path: str
    """Absolute."""
    shown: str

    def open(self) -> Target | None:
        """Opens the file; returns None if it is gone or is no longer a file of that folder."""
        try:
            handle = self.root.open(self.relative, links=False)
        except OSError:
            return None
        return Target(self.root, self.path, handle, ())


@dataclass(frozen=True, slots=True)
class FolderListing:
    """The visible files of a folder."""

    files: tuple[ScannedFile, ...]
    is_whole: bool
    links_out: tuple[str, ...]
    """The first of the links that lead out of the root, as shown to users."""


def scan_folder(ctx: CallContext, folder: Target) -> FolderListing:
    """Lists the visible files of a folder. Raises ToolError if that takes too long."""
    bounds = SearchBounds(ctx.budget.cancelled, ctx.budget.deadline)
    with SearchScope(
        folder.root, folder.relative, ctx.permissions.is_visible, bounds, landlocked_process.best_confinement()
    ) as scope:
        output = scope.run_ripgrep(("--files", "--sort=path", *LAST_GLOBS, "--", WALKED.decode()), most=_NAMES_BYTES)
        ctx.check_time()
        if output.stop in {StopReason.CANCELLED, StopReason.DEADLINE}:
            raise ToolError("Scanning the folder took too long.", hint="Name a smaller folder.")
        files = tuple(_scanned_files(ctx, scope, parse_names(output.data, WALKED)))
        links = tuple(islice(_links_out(ctx, scope, files), _MOST_LINKS))
        return FolderListing(files, output.stop is None, links)


def _scanned_files(ctx: CallContext, scope: SearchScope, found: list[str]) -> Iterator[ScannedFile]:
    root = scope.root
    for name in found:
        relative = scope.relative(name)
        if scope.allows(name) and _GIT not in relative.split("/"):
            path = f"{root.path.rstrip('/')}/{relative}"
            yield ScannedFile(root, relative, path, printable_name(ctx.mounts.display_path(path)))


def _links_out(ctx: CallContext, scope: SearchScope, files: Sequence[ScannedFile]) -> Iterator[str]:
    """Yields links that ripgrep skips, in the folders that contain listed files and in those without any file.

    Every other folder has files that are not listed, so it is ignored.
    """
    start = scope.relative("")
    listed = {start, *(folder for each in files for folder in _parent_folders(each.relative, start))}
    waiting = sorted(listed, reverse=True)
    for _ in range(_MOST_FOLDERS):
        if not waiting:
            return
        ctx.check_time()
        folder = waiting.pop()
        links, folders, has_files = _list_entries(scope.root, folder)
        if folder not in listed and has_files:
            continue
        waiting.extend(each for each in folders if each not in listed and each.rpartition("/")[2] != _GIT)
        for relative in links:
            path = f"{scope.root.path.rstrip('/')}/{relative}"
            if ctx.permissions.is_visible(path) and _leads_out(scope.root, relative):
                yield printable_name(ctx.mounts.display_path(path))


def _parent_folders(relative: str, start: str) -> Iterator[str]:
    """Yields the folders below `start` that contain the file."""
    folder = relative.rpartition("/")[0]
    while len(folder) > len(start):
        yield folder
        folder = folder.rpartition("/")[0]


def _list_entries(root: Root, folder: str) -> tuple[list[str], list[str], bool]:
    """Returns the links and the folders in a folder, and whether it contains anything else."""
    try:
        fd = root.open_folder(folder or ".")
    except OSError:  # deleted meanwhile, or no longer a folder
        return [], [], False
    links: list[str] = []
    folders: list[str] = []
    has_files = False
    try:
        with os.scandir(fd) as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_symlink():
                    links.append(path)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(path)
                else:
                    has_files = True
    finally:
        os.close(fd)
    return sorted(links), sorted(folders, reverse=True), has_files


def _leads_out(root: Root, relative: str) -> bool:
    try:
        root.open(relative).close()
    except OSError as error:
        return error.errno == errno.EXDEV
    return False
