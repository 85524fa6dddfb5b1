"""Refuses writable context paths that contain other programs' sockets.

A command that reaches such a socket (ssh-agent, tmux, Docker) acts outside the sandbox.
"""

from __future__ import annotations

import fnmatch
import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolyard.core.errors import ConfigError
from toolyard.core.paths import relative_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from toolyard.config.settings import Settings

_TEMPORARY_SOCKET_PATTERNS = (
    "ssh-*",
    "tmux-*",
    "screens",
    "uscreens",
    "dbus-*",
    "gpg-*",
    "keyring-*",
    ".X11-unix",
    ".ICE-unix",
)
"""Names of the socket folders that ssh-agent, tmux and similar programs create in a temporary folder."""
_HOME_SOCKET_FOLDERS = (".ssh", ".gnupg", ".screen", ".tmux", ".docker/run", ".local/share/containers")
_HINT = "Name a more specific folder, for example one below it, or give the path `permission: read`."


@dataclass(frozen=True, slots=True)
class SocketFolders:
    """The folders of this machine in which programs create sockets."""

    temporary: tuple[str, ...]
    """Folders shared by all programs: a subfolder may be a writable context path, the whole folder may not."""
    runtime: tuple[str, ...]
    """Folders that contain only sockets: no part of them may be a writable context path."""

    @classmethod
    def from_settings(cls, settings: Settings, resolve: Callable[[str], str]) -> SocketFolders:
        runtime = (*settings.runtime_folders, *(posixpath.join(settings.home, name) for name in _HOME_SOCKET_FOLDERS))
        return cls(_with_resolved(settings.temporary_folders, resolve), _with_resolved(runtime, resolve))

    def refuse_writable(self, names: Iterable[str]) -> None:
        """Raises ConfigError if one of these paths must not be writable."""
        for path in names:
            if (folder := self._find_socket_folder(path)) is not None:
                how = "is" if folder == path else "is inside" if relative_to(path, folder) is not None else "contains"
                raise ConfigError(
                    f'the context path "{path}" cannot be writable: it {how} {folder}, where other programs put '
                    "their sockets, and a command that reaches them acts as you, outside the sandbox.",
                    hint=_HINT,
                )

    def _find_socket_folder(self, path: str) -> str | None:
        for folder in (*self.temporary, *self.runtime):
            if relative_to(folder, path) is not None:
                return folder
        for folder in self.runtime:
            if relative_to(path, folder) is not None:
                return folder
        for folder in self.temporary:
            first = (relative_to(path, folder) or "").split("/")[0]
            if any(fnmatch.fnmatchcase(first, pattern) for pattern in _TEMPORARY_SOCKET_PATTERNS):
                return posixpath.join(folder, first)
        return None


def _with_resolved(folders: Iterable[str], resolve: Callable[[str], str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for folder in folders for name in (folder, resolve(folder))))
