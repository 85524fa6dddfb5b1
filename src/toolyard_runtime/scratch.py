"""Removes a sandbox's private folder, whatever its runs left in it.

Used by the host, and by a supervisor without one.
"""

from __future__ import annotations

import os


def remove(folder: str) -> None:
    """Removes as much of the folder as possible; errors are ignored, because no caller could act on them."""
    import shutil

    try:
        for path, names, _ in os.walk(folder):
            for name in names:
                _make_accessible(os.path.join(path, name))
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:  # nested deeper than Python's recursion limit
        return


def _make_accessible(folder: str) -> None:
    """Makes a folder accessible to its owner. By handle: a dying run might put a link in its place."""
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
