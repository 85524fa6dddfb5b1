"""Files for SQLite databases that several connections and processes use at once."""

from __future__ import annotations

import contextlib
import os
import tempfile


def make_private(path: str) -> None:
    """Make an empty file at `path`, for its owner alone, where there is none; SQLite gives those beside it its mode.

    A file that is there is never opened. To close it again would take back the locks that SQLite holds on it for
    this process, and another process could clear away the log that is in use. That is also why a new one is given
    its name when it is closed already. Raises OSError.
    """
    if os.path.lexists(path):
        return
    fd, draft = tempfile.mkstemp(prefix=".toolyard-", dir=os.path.dirname(path))
    os.close(fd)
    try:
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.unlink(draft)
