"""Errors of the catalog file, and moving a damaged one aside."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress

from toolyard.core.errors import SystemFault
from toolyard.core.fd_exhaustion import fd_exhaustion_fault
from toolyard.storage.disk_full import FREE_SPACE, check_descriptors, is_disk_full

_REBUILD = "Run `toolyard sync --rebuild`, which moves the file aside and asks every server again."


@contextmanager
def translate_catalog_errors(path: str) -> Generator[None]:
    """Raises errors of the disk or SQLite, and invalid rows, of the catalog at `path` as SystemFault."""
    try:
        yield
    except OSError as error:
        if (fault := fd_exhaustion_fault(error)) is not None:
            raise fault from error
        message = f"The catalog {path} cannot be used: {error.strerror}."
        raise SystemFault(message, hint="Free some space, or check the folder's permissions.") from error
    except sqlite3.Error as error:
        check_descriptors(error)
        why, hint = ("the disk is full", FREE_SPACE) if is_disk_full(error, path) else (str(error), _REBUILD)
        raise SystemFault(f"The catalog {path} cannot be used: {why}.", hint=hint) from error
    except (TypeError, ValueError, RecursionError) as error:
        raise SystemFault(f"The catalog {path} is damaged: {error}.", hint=_REBUILD) from error


def set_aside(path: str) -> str | None:
    """Renames a database and its companion files. Returns the new name, or None if there is none."""
    new = f"{path}.{time.strftime('%Y%m%d-%H%M%S')}"
    for end in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.rename(path + end, new + end)
    return new if os.path.lexists(new) else None
