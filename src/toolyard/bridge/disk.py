"""Reads a client's files from this machine's own disk, through directory handles.

The server's operator decides which folders are shared, never a client: a root that a client names must be inside one
of them. A file is opened beneath the root with Toolyard's path layer, and the policy checks its real location after
it is open, so that a link cannot bypass the check.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace

from toolyard.bridge.cache import NewFile
from toolyard.bridge.errors import (
    BadAnswerError,
    MissingFileError,
    PathRefusedError,
    UnreadableFileError,
    Violation,
    printable_text,
)
from toolyard.bridge.listing_answers import (
    MAX_LISTING_ENTRIES,
    ChildPaths,
    ListingRequest,
    PathInfo,
    resolve_links,
    with_targets,
)
from toolyard.bridge.path_validator import PathValidator
from toolyard.bridge.policy import SecurityPolicy
from toolyard.core.errors import ConfigError, SecurityError, ToolyardError, ValidationError
from toolyard.core.limits import DEFAULT_LIMITS
from toolyard.core.paths import is_beneath
from toolyard.files.file_io import read_handle
from toolyard.files.os_errors import explain
from toolyard.files.roots import Handle, Root
from toolyard.files.search.glob_patterns import Glob

_ALLOW_HINT = "The user can add it to filesystem.allowed_paths."


class SharedDisk:
    """The folders of this machine that a server may read for its clients."""

    def __init__(self, folders: Iterable[str | os.PathLike[str]] = ()) -> None:
        """Raises ConfigError if a folder does not exist."""
        try:
            self._folders = tuple(os.path.realpath(folder, strict=True) for folder in folders)
        except OSError as error:
            raise ConfigError(
                f"The shared folder {error.filename} cannot be opened: {error.strerror}.",
                hint="Give a list of folders on this machine.",
            ) from None

    def __bool__(self) -> bool:
        return bool(self._folders)

    @contextlib.contextmanager
    def open_folder(self, policy: SecurityPolicy) -> Generator[LocalFolder | None]:
        """Opens the project's folder; None if it is not inside a shared folder."""
        root = self._open_root(policy.project_root)
        if root is None:
            yield None
            return
        try:
            yield LocalFolder(root, policy)
        finally:
            root.close()

    def _open_root(self, path: str | None) -> Root | None:
        if path is None or not path.startswith("/") or not self._folders:
            return None
        try:
            root = Root(path)
        except ToolyardError:
            return None
        if any(is_beneath(root.path, folder) for folder in self._folders):
            return root
        root.close()
        return None


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A client's project on this machine's disk."""

    root: Root
    policy: SecurityPolicy

    def read(self, path: str, max_bytes: int) -> NewFile:
        """Reads the file at a validated path."""
        with self._open(path) as handle:
            contents = read_handle(handle, path, replace(DEFAULT_LIMITS, file_bytes=max_bytes))
        return NewFile(path, contents.data, mtime=contents.status.st_mtime, is_binary=True)

    def list(self, wanted: ListingRequest) -> list[PathInfo]:
        listing = _DiskListing(self, wanted.glob(), recursive=wanted.recursive)
        entries = listing.list_folder(wanted.path, ())
        return with_targets(entries, resolve_links(listing.links, PathValidator(self.policy)))

    @contextlib.contextmanager
    def _open(self, path: str) -> Generator[Handle]:
        try:
            handle = self.root.open(self.policy.relative(path))
        except FileNotFoundError:
            raise MissingFileError(path) from None
        except PermissionError:
            raise UnreadableFileError(path) from None
        except OSError as error:
            explained = explain(error, path)
            if isinstance(explained, SecurityError):
                raise PathRefusedError(path, Violation.LINK, "leads out of the project.", hint=_ALLOW_HINT) from None
            raise explained from None
        with handle:
            self._require_allowed(handle.real, path)
            yield handle

    def _require_allowed(self, real: str, path: str) -> None:
        """Raises PathRefusedError unless the resolved path is beneath the root and allowed."""
        if not is_beneath(real, self.root.path):
            raise PathRefusedError(path, Violation.LINK, "leads out of the project.", hint=_ALLOW_HINT)
        inside = os.path.relpath(real, self.root.path)
        if not PathValidator(self.policy).is_allowed(inside):
            raise PathRefusedError(path, Violation.LINK, "leads outside the allowed paths.", hint=_ALLOW_HINT)

    def entries(self, path: str) -> list[tuple[str, os.stat_result, str | None]]:
        """Returns the entries of a folder: names, stat results and link targets."""
        with self._open(path) as handle:
            if not handle.is_folder:
                raise ValidationError.of("path", f"{printable_text(path)} is not a folder", hint="Read it as a file.")
            try:
                folder = handle.reopen_fd(os.O_RDONLY | os.O_DIRECTORY)
            except PermissionError:
                raise UnreadableFileError(path) from None
            try:
                return list(_scan_entries(folder, path))
            except PermissionError:
                raise UnreadableFileError(path) from None
            finally:
                os.close(folder)


def _scan_entries(folder: int, path: str) -> Generator[tuple[str, os.stat_result, str | None]]:
    names = os.listdir(folder)
    if len(names) > MAX_LISTING_ENTRIES:
        raise BadAnswerError(printable_text(path), f"it has more than {MAX_LISTING_ENTRIES:,} entries")
    for name in sorted(names):
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            is_link = stat.S_ISLNK(status.st_mode)
            yield name, status, os.readlink(name, dir_fd=folder) if is_link else None


class _DiskListing:
    def __init__(self, folder: LocalFolder, glob: Glob | None, *, recursive: bool) -> None:
        self._folder = folder
        self._glob = glob
        self._recursive = recursive
        self._child = ChildPaths(PathValidator(folder.policy))
        self._count = 0
        self.links: dict[str, str] = {}

    def list_folder(self, path: str, above: tuple[str, ...]) -> list[PathInfo]:
        found: list[PathInfo] = []
        for name, status, target in self._folder.entries(path):
            self._count += 1
            if self._count > MAX_LISTING_ENTRIES:
                raise BadAnswerError(path, f"it has more than {MAX_LISTING_ENTRIES:,} entries")
            info = self._entry_info(path, name, status, target, above)
            if info is not None:
                found.append(info)
        return found

    def _entry_info(
        self, folder: str, name: str, status: os.stat_result, target: str | None, above: tuple[str, ...]
    ) -> PathInfo | None:
        path = self._child(folder, name)
        if isinstance(path, PathInfo):
            return path
        names = (*above, name)
        is_listed = self._glob is None or self._glob.matches(names)
        if stat.S_ISDIR(status.st_mode):
            children = tuple(self.list_folder(path, names)) if self._recursive else None
            is_on_the_way = bool(children) or (self._glob is None and self._recursive)
            if not (is_listed or is_on_the_way):
                return None
            return PathInfo(name, path, "directory", mtime=status.st_mtime, children=children)
        if not is_listed or not (target is not None or stat.S_ISREG(status.st_mode)):
            return None
        if target is not None:
            self.links[path] = target
            return PathInfo(name, path, "symlink", mtime=status.st_mtime)
        return PathInfo(name, path, "file", status.st_size, status.st_mtime)
