"""Detects the causes that SQLite does not report: a full disk, or no file descriptors left."""

from __future__ import annotations

import os
import sqlite3

from toolyard.core.fd_exhaustion import are_descriptors_low, out_of_descriptors_fault

_SAID = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE}
_FIRST_BYTE = 0xFF
FREE_SPACE = "Free some space and try again."


def check_descriptors(error: sqlite3.Error) -> None:
    """Raises SystemFault if SQLite could not open a file because no descriptors were left."""
    if getattr(error, "sqlite_errorcode", 0) & _FIRST_BYTE == sqlite3.SQLITE_CANTOPEN and are_descriptors_low():
        raise out_of_descriptors_fault() from error


def is_disk_full(error: sqlite3.Error, path: str) -> bool:
    """Returns whether the disk of the database at `path` had no room left, for bytes or for files."""
    code = getattr(error, "sqlite_errorcode", 0)  # errors that Python itself raises have none
    if code & _FIRST_BYTE == sqlite3.SQLITE_FULL or code in _SAID:
        return True
    if code & _FIRST_BYTE != sqlite3.SQLITE_CANTOPEN:
        return False
    # A file beside it could not be created: the disk is full, or permission is missing.
    try:
        disk = os.statvfs(os.path.dirname(path) or ".")
    except OSError:
        return False
    return disk.f_bavail == 0 or (disk.f_files > 0 and disk.f_favail == 0)
