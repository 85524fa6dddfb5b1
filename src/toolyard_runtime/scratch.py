"""Removing a sandbox's private folder, whatever its runs left in it. For the host, and for a warden without one."""

from __future__ import annotations

import os


def remove(folder: str) -> None:
    """As much of it as can be: what stays behind is nobody's fault that could be told to anyone."""
    import shutil

    try:
        for path, names, _ in os.walk(folder):
            for name in names:
                _make_accessible(os.path.join(path, name))
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:  # nested deeper than Python's calls can be
        return


def _make_accessible(folder: str) -> None:
    """It may be closed even to its owner. By handle: a run that is not quite dead may put a link in its place."""
    try:
        fd = os.open(folder, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.chmod(f"/proc/self/fd/{fd}", 0o700)
    except OSError:
        return
    finally:
        os.close(fd)
