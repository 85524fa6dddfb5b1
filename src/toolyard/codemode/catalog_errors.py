"""A catalog that cannot be used, in words, and setting a damaged one aside."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress

from toolyard.core.errors import SystemFault
from toolyard.core.fd_exhaustion import fd_exhaustion_fault
from toolyard.storage.disk_full import FREE_SPACE, check_descriptors, is_disk_full

_REBUILD = "Run `toolyard sync --rebuild`, which sets the file aside and asks every server again."


@contextmanager
def translate_catalog_errors(path: str) -> Generator[None]:
    """What the disk or SQLite says about the catalog at `path`, or rows that make no sense, as an error of ours."""
    try:
        yield
    except OSError as error:
        if (fault := fd_exhaustion_fault(error)) is not None:
            raise fault from error
        said = f"The catalog {path} cannot be used: {error.strerror}."
        raise SystemFault(said, hint="Free some space, or look at the folder's rights.") from error
    except sqlite3.Error as error:
        check_descriptors(error)
        why, hint = ("the disk is full", FREE_SPACE) if is_disk_full(error, path) else (str(error), _REBUILD)
        raise SystemFault(f"The catalog {path} cannot be used: {why}.", hint=hint) from error
    except (TypeError, ValueError, RecursionError) as error:
        raise SystemFault(f"The catalog {path} is damaged: {error}.", hint=_REBUILD) from error


def set_aside(path: str) -> str | None:
    """Rename a database and the files beside it. Its new name; None where there is none."""
    new = f"{path}.{time.strftime('%Y%m%d-%H%M%S')}"
    for end in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.rename(path + end, new + end)
    return new if os.path.lexists(new) else None
