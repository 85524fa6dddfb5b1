"""The private folder of one run: the CLI's settings, its home, where it stands, its temporary files.

`RunFolder` owns it until `close()`. The run's keeper removes it as well, should nobody be left to close it.
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
    def __init__(self, roots: Sequence[str] = (), fallback: str = "") -> None:
        """In the user's folder for runs; in the folder `fallback` where that lies in one of `roots`.

        Those are what the tools of the run reach: settings and a login are not to be found there. Raises SystemFault.
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
        """A descriptor that keeps the folder from being taken for a leftover."""
        return self._folder.lock_fd

    def write(self, files: Mapping[str, str]) -> None:
        """Text by path, readable by its owner alone. Raises SystemFault."""
        try:
            for path, text in files.items():
                with open(self._create_file(path), "w", encoding="utf-8") as file:
                    file.write(text)
        except OSError as error:
            raise _write_error(error) from error

    def copy_logins(self, logins: Iterable[Login], home: str, variables: Mapping[str, str]) -> bool:
        """Copy what the user's CLI keeps of a login. Whether there is one."""
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
        place = os.path.join(self.path, path)
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        return os.open(place, _CREATE_FLAGS, _PRIVATE)

    def close(self) -> None:
        self._folder.close()


def _parent_outside(roots: Sequence[str], fallback: str) -> str:
    """Where the folder is made."""
    for parent in (run_folder(), fallback):
        real = os.path.realpath(parent)
        if not any(is_beneath(real, root) for root in roots):
            return parent
    raise SystemFault(
        "There is no place for the settings of the run that its tools do not reach.",
        hint="Set XDG_STATE_HOME to a folder outside of the workspace.",
    )


def _write_error(error: OSError) -> SystemFault:
    why = error.strerror or str(error)
    return SystemFault(
        f"The settings of the run cannot be written: {why}.",
        hint="Free some space, or set XDG_STATE_HOME to another folder.",
    )
