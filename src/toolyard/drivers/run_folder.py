"""The private folder of one run: the CLI's settings, home, working folder and temporary files.

`RunFolder` owns it until `close()`. The run's reaper removes it as well, in case this process is killed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence

from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault
from toolyard.core.paths import is_beneath
from toolyard.drivers.driver import Login
from toolyard.storage.private_folders import run_folder
from toolyard.storage.temp_folders import TemporaryFolder

_WORKDIR = "here"
_TEMPORARY = "tmp"
_PRIVATE = 0o600
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class RunFolder(Closeable):
    """Private temporary folder of a run."""

    def __init__(self, roots: Sequence[str] = (), fallback: str = "") -> None:
        """Creates the folder in the user's folder for runs, or in `fallback` if that is inside one of `roots`.

        The run's tools can reach `roots`, so settings and a login must not be there. Raises SystemFault.
        """
        try:
            self._folder = TemporaryFolder("drive", _parent_outside(roots, fallback))
        except OSError as error:
            raise _write_error(error) from error
        self.path = self._folder.path
        self.workdir = os.path.join(self.path, _WORKDIR)
        self.temporary = os.path.join(self.path, _TEMPORARY)
        try:
            for path in (self.workdir, self.temporary):
                os.mkdir(path)
        except OSError as error:
            self._folder.close()
            raise _write_error(error) from error

    @property
    def lock_fd(self) -> int:
        """Descriptor of the lock that keeps the folder from being removed as a leftover."""
        return self._folder.lock_fd

    def write(self, files: Mapping[str, str]) -> None:
        """Writes texts by path, readable only by the owner. Raises SystemFault."""
        try:
            for path, text in files.items():
                with open(self._create_file(path), "w", encoding="utf-8") as file:
                    file.write(text)
        except OSError as error:
            raise _write_error(error) from error

    def copy_logins(self, logins: Iterable[Login], home: str, variables: Mapping[str, str]) -> bool:
        """Copies the CLI's stored logins. Returns whether there is one."""
        is_there = False
        for login in logins:
            try:
                with (
                    open(login.path(home, variables), "rb") as file,
                    open(self._create_file(login.copy_path), "wb") as copy,
                ):
                    shutil.copyfileobj(file, copy)
                is_there = True
            except FileNotFoundError:
                continue
            except OSError as error:
                raise _write_error(error) from error
        return is_there

    def _create_file(self, path: str) -> int:
        target = os.path.join(self.path, path)
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        return os.open(target, _CREATE_FLAGS, _PRIVATE)

    def close(self) -> None:
        self._folder.close()


def _parent_outside(roots: Sequence[str], fallback: str) -> str:
    """Returns the parent for the folder."""
    for parent in (run_folder(), fallback):
        real = os.path.realpath(parent)
        if not any(is_beneath(real, root) for root in roots):
            return parent
    raise SystemFault(
        "The tools of the run can reach every folder for its settings.",
        hint="Set XDG_STATE_HOME to a folder outside of the workspace.",
    )


def _write_error(error: OSError) -> SystemFault:
    why = error.strerror or str(error)
    return SystemFault(
        f"The settings of the run cannot be written: {why}.",
        hint="Free some space, or set XDG_STATE_HOME to another folder.",
    )
