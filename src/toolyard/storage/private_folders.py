"""The private folders of the user for Toolyard's sockets, run settings and scratch files.

Never below a temporary folder: other programs have their sockets there, and agents can be given access to it. These
folders are hidden from the tools and commands of every workspace (`own_folders`).
"""

from __future__ import annotations

import contextlib
import os
import stat

from toolyard.config.settings import Settings
from toolyard.core.errors import SystemFault
from toolyard.core.paths import is_beneath
from toolyard.storage.state_folder import ensure_state_dir

_RUN = "run"
_OWN = "toolyard"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def run_folder() -> str:
    """Returns `run` in the user's state folder, for large files. Raises SystemFault if it cannot be created."""
    return ensure_state_dir(_run_folder(Settings.from_environment()))


def socket_folder() -> str:
    """Returns `toolyard` in $XDG_RUNTIME_DIR if private to the user; else `run_folder()`. Raises SystemFault."""
    settings = Settings.from_environment()
    if _is_private_runtime_dir(settings):
        with contextlib.suppress(SystemFault):
            return ensure_state_dir(os.path.join(settings.runtime_dir, _OWN))
    return run_folder()


def own_folders() -> tuple[str, ...]:
    """Returns the real paths of both folders, which need not exist."""
    settings = Settings.from_environment()
    folders = [_run_folder(settings)]
    if settings.runtime_dir:
        folders.append(os.path.join(settings.runtime_dir, _OWN))
    return tuple(os.path.realpath(folder) for folder in folders)


def _run_folder(settings: Settings) -> str:
    return os.path.join(settings.state_home, _RUN)


def _is_private_runtime_dir(settings: Settings) -> bool:
    if not settings.runtime_dir:
        return False
    real = os.path.realpath(settings.runtime_dir)
    try:
        status = os.stat(real)
    except OSError:
        return False
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & _OTHERS
    return is_ours and not any(is_beneath(real, os.path.realpath(folder)) for folder in settings.temporary_folders)
