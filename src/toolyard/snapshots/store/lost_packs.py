"""Corrects the index for truncated or missing packs before a snapshot relies on it.

A snapshot of unchanged files refers to objects that are already stored. If those bytes were lost, the new snapshot
could not be restored. So lost objects are dropped from the index, together with the stat cache: the walk then reads
every file again and stores what is missing, which also repairs older snapshots that need the same bytes. Changed
bytes in the middle of a pack are not found here; `verify` reads everything.
"""

from __future__ import annotations

import contextlib
import os

from toolyard.snapshots.store.index import Index
from toolyard.snapshots.store.packs import OBJECT, SNAPSHOT, open_pack, pack_path

_MARK_BYTES = 4
_ASIDE = ".damaged"


def forget_lost_objects(folder: str, index: Index) -> None:
    """Drops the objects whose bytes are lost. The caller holds the store's lock. Quick if nothing is lost."""
    for pack, counted in index.packs().items():
        end = _readable_size(folder, pack)
        if end >= counted:
            continue
        rows = list(index.objects(pack))
        intact_ends = [at + size for _, _, at, size in rows if at + size <= end]
        if len(intact_ends) == len(rows):
            continue
        if not intact_ends:  # not a pack any more: nothing may be appended to it
            move_aside(pack_path(folder, pack))
        with index.transaction():
            index.drop_objects([digest for digest, _, at, size in rows if at + size > end])
            if intact_ends:  # the next writer appends after the last object
                index.set_pack(pack, max(intact_ends))
            else:
                index.drop_pack(pack)
            index.clear_cached_pages()


def move_aside(path: str) -> None:
    """Renames a file that is not a valid pack, so that it is not used as one."""
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, path + _ASIDE)


def _readable_size(folder: str, pack: int) -> int:
    """Returns how many bytes of a pack exist; 0 if it does not begin as a pack."""
    file = open_pack(pack_path(folder, pack))
    if file is None:
        return 0
    with file:
        is_pack = file.read(_MARK_BYTES) in {OBJECT, SNAPSHOT}
        return os.fstat(file.fileno()).st_size if is_pack else 0
