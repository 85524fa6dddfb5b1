"""Which files something is mounted over. The kernel takes a mount off a name that is given to another file.

Editors and git replace files by renaming a new one over them, and what was hidden or read-only inside is then open.
So it is looked at while runs are under way, and a sandbox that lost a cover is ended.
"""

from __future__ import annotations

import os

from toolyard.sandbox.spec import Spec

Identities = tuple[tuple[str, int, int], ...]


def identities(spec: Spec) -> Identities:
    """Each covered path with the file it names now."""
    return tuple(_identity(path) for path in (*spec.hidden, *(mount.source for mount in spec.mounts)))


def _identity(path: str) -> tuple[str, int, int]:
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return path, 0, 0
    return path, found.st_dev, found.st_ino
