"""Maps a path to the root that contains it, and opens the object or the missing place that it names.

Mounts owns its roots until `close()`. A Target owns its handle; use it as a context manager. Paths outside every root
belong to the host root `/`, which is opened only on demand: the policy decides about such paths before anything there
is touched.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Self

from toolyard.core.limits import DEFAULT_LIMITS, Limits
from toolyard.core.paths import normalize_path, relative_to
from toolyard.files.os_errors import explain, link_escape_error
from toolyard.files.roots import Handle, Root
from toolyard.linux.mountinfo import file_system_of

_LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "bcachefs", "tmpfs", "ramfs", "overlay"})


class Target:
    """What a path names: an existing object, or a place where one could be created.

    `handle` is the object, or the deepest folder that exists; `missing` are the names that do not exist below it.
    """

    __slots__ = ("handle", "missing", "path", "root")

    def __init__(self, root: Root, path: str, handle: Handle, missing: tuple[str, ...]) -> None:
        self.root = root
        self.path = path
        self.handle = handle
        self.missing = missing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.handle.close()

    def close(self) -> None:
        self.handle.close()

    @property
    def exists(self) -> bool:
        return not self.missing

    @property
    def real(self) -> str:
        """Returns the real path, with links followed."""
        return os.path.join(self.handle.real, *self.missing) if self.missing else self.handle.real

    @property
    def relative(self) -> str:
        """Returns `real`, relative to the root. Raises SecurityError if it was moved out of the root."""
        inside = relative_to(self.real, self.root.path)
        if inside is None:
            raise link_escape_error(self.path)
        return inside


class Mounts:
    """The workspace and the other declared roots, the innermost first when one lies within another."""

    def __init__(
        self,
        workspace: str,
        others: Sequence[str] = (),
        *,
        aliases: Mapping[str, str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """`aliases` are further absolute names of roots, by name, such as links that are known to lead there."""
        self.workspace = Root(workspace)
        self._limits = limits
        self._host: Root | None = None
        self._host_lock = threading.Lock()
        self._roots = [self.workspace]
        self._spellings: list[tuple[str, Root]] = []
        self._aliases: frozenset[str] = frozenset()
        self._add(workspace, self.workspace)
        try:
            for other in others:
                if os.path.isdir(other):
                    self._roots.append(Root(other, display_prefix=os.path.realpath(other).rstrip("/") + "/"))
                    self._add(other, self._roots[-1])
            by_path = {root.path: root for root in self._roots}
            named = {name: by_path[path] for name, path in (aliases or {}).items() if path in by_path}
            self._spellings += named.items()
            self._aliases = frozenset(named)
        except BaseException:
            self.close()
            raise
        # Sorted by each spelling on its own: a long link name does not make its root the innermost.
        self._spellings.sort(key=lambda pair: len(pair[0]), reverse=True)
        self._roots.sort(key=lambda root: len(root.path), reverse=True)

    def _add(self, spelling: str, root: Root) -> None:
        # A folder given through a link is known by both names.
        for name in dict.fromkeys((os.path.abspath(spelling), root.path)):
            self._spellings.append((name, root))

    @cached_property
    def are_local(self) -> bool:
        """Returns whether every declared root lies on a local disk, so that reads never wait for a network."""
        return all(file_system_of(root.fd) in _LOCAL for root in self._roots)

    @property
    def declared_roots(self) -> tuple[str, ...]:
        """Returns the real paths of the declared roots, the workspace first."""
        others = sorted(root.path for _, root in self._spellings if root is not self.workspace)
        return tuple(dict.fromkeys((self.workspace.path, *others)))

    def close(self) -> None:
        for root in self._roots:
            root.close()
        if self._host is not None:
            self._host.close()

    def clean(self, path: object, *, field: str = "path") -> str:
        """Returns the path as policy and handles use it: absolute, normalised, with the root's real path."""
        absolute = normalize_path(path, self.workspace.path, field=field, limits=self._limits)
        for spelling, root in self._spellings:
            inside = relative_to(absolute, spelling)
            if inside is not None:
                if spelling == root.path:
                    return absolute
                return root.path if inside == "." else os.path.join(root.path, inside)
        return absolute

    def root_of(self, path: str) -> Root:
        """Returns the innermost root that contains a clean `path`; the host root if no declared one does."""
        for root in self._roots:
            if relative_to(path, root.path) is not None:
                return root
        with self._host_lock:
            if self._host is None:
                self._host = Root("/", display_prefix="/")
            return self._host

    def is_root_alias(self, path: str) -> bool:
        """Returns whether an absolute `path` is an alias of a root: on disk it is a link."""
        return path in self._aliases

    def is_declared(self, path: str) -> bool:
        """Returns whether a clean `path` lies in one of the declared roots, not elsewhere on the host."""
        return any(relative_to(path, root.path) is not None for root in self._roots)

    def display_path(self, path: str) -> str:
        """Formats a clean path for people: relative inside the workspace, absolute elsewhere."""
        inside = relative_to(path, self.workspace.path)
        return path if inside is None else inside

    def find(self, path: str) -> Target:
        """Opens what a clean `path` names.

        Raises our errors: a link that leads out, a missing permission, a file where a folder should be.
        """
        root = self.root_of(path)
        relative = relative_to(path, root.path) or "."
        try:
            return Target(root, path, root.open(relative), ())
        except FileNotFoundError:
            return _nearest_existing(root, path, relative)
        except OSError as error:
            raise explain(error, path) from error


def _nearest_existing(root: Root, path: str, relative: str) -> Target:
    """Opens the deepest folder that exists on the way to `relative`; the target has the names missing below it."""
    parts = relative.split("/")
    for count in range(len(parts) - 1, -1, -1):
        try:
            handle = root.open("/".join(parts[:count]) or ".")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise explain(error, path) from error
        missing = tuple(parts[count:])
        if not stat.S_ISDIR(handle.status.st_mode):
            handle.close()
            raise explain(NotADirectoryError(errno.ENOTDIR, "not a folder"), path)
        if _is_dangling(handle, missing[0]):
            handle.close()
            raise link_escape_error(path)
        return Target(root, path, handle, missing)
    raise explain(FileNotFoundError(errno.ENOENT, "the root itself is gone"), root.path)


def _is_dangling(folder: Handle, name: str) -> bool:
    """Returns whether a name is a link. Its target does not exist, and must not be created through it."""
    try:
        status = os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
    except OSError:
        return False
    # Anything else appeared since the lookup; a writer checks again, under the folder's lock.
    return stat.S_ISLNK(status.st_mode)
