"""What SQLite stumbled over and does not say: a full disk, or no descriptors left."""

from __future__ import annotations

import os
import sqlite3

from toolyard.core.fd_exhaustion import are_descriptors_low, out_of_descriptors_fault

_SAID = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE}
_FIRST_BYTE = 0xFF
FREE_SPACE = "Free some space and try again."


def check_descriptors(error: sqlite3.Error) -> None:
    """Raise SystemFault where SQLite could not open a file for want of descriptors, which it does not say."""
    if getattr(error, "sqlite_errorcode", 0) & _FIRST_BYTE == sqlite3.SQLITE_CANTOPEN and are_descriptors_low():
        raise out_of_descriptors_fault() from error


def is_disk_full(error: sqlite3.Error, path: str) -> bool:
    """Whether there was no room, of bytes or of files, on the disk of the database at `path`."""
    code = getattr(error, "sqlite_errorcode", 0)  # those that Python itself raises have none
    if code & _FIRST_BYTE == sqlite3.SQLITE_FULL or code in _SAID:
        return True
    if code & _FIRST_BYTE != sqlite3.SQLITE_CANTOPEN:
        return False
    # A file beside it could not be made: for want of room, or of the right to.
    try:
        disk = os.statvfs(os.path.dirname(path) or ".")
    except OSError:
        return False
    return disk.f_bavail == 0 or (disk.f_files > 0 and disk.f_favail == 0)
