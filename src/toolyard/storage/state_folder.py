"""The state folder of a workspace: one private folder each, outside the workspace.

This module only decides names and modes. Callers make sure that the folder does not lie inside the workspace.
"""

from __future__ import annotations

import errno
import os
import stat

from toolyard.core.errors import SystemFault
from toolyard.core.ids import workspace_id

PRIVATE_FOLDER = 0o700
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def state_dir(state_home: str, workspace: str) -> str:
    """Returns the state folder of `workspace`, which need not exist yet."""
    return os.path.join(os.path.abspath(state_home), workspace_id(os.path.realpath(workspace)))


def ensure_state_dir(path: str) -> str:
    """Creates the folder, or makes an existing one private to its owner, and returns its path."""
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), mode=PRIVATE_FOLDER, exist_ok=True)
        os.makedirs(path, mode=PRIVATE_FOLDER, exist_ok=True)
        if os.stat(path).st_mode & _OTHERS:
            os.chmod(path, PRIVATE_FOLDER)
    except OSError as error:
        is_full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        raise SystemFault(
            f"The state folder {path} cannot be made private to you: {error.strerror}.",
            hint=f"{'Free some space, or choose' if is_full else 'Choose'} a folder you own with --state DIR.",
        ) from error
    return path
