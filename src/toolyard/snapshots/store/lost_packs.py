"""Packs that lost their end, or all of it: what the index says of them is put right before a snapshot relies on it.

A snapshot of files that look as they did refers to what is stored. Were those bytes gone, it would be taken and could
not be restored. Objects that are no longer there are forgotten, and so is what folders looked like: the walk then
reads every file again and stores what is missing, which also heals older snapshots that need the same bytes. Bytes
that changed in the middle of a pack are not found here; `verify` reads everything.
"""

from __future__ import annotations

import contextlib
import os

from toolyard.snapshots.store.index import Index
from toolyard.snapshots.store.packs import OBJECT, SNAPSHOT, open_pack, pack_path

_MARK_BYTES = 4
_ASIDE = ".damaged"


def forget_lost_objects(folder: str, index: Index) -> None:
    """Drop the objects whose bytes are gone. Only for who holds the store's lock. Quick where nothing is lost."""
    for pack, counted in index.packs().items():
        end = _readable_size(folder, pack)
        if end >= counted:
            continue
        rows = list(index.objects(pack))
        held = [at + size for _, _, at, size in rows if at + size <= end]
        if len(held) == len(rows):
            continue
        if not held:  # nothing may be written behind what is no pack
            move_aside(pack_path(folder, pack))
        with index.transaction():
            index.drop_objects([digest for digest, _, at, size in rows if at + size > end])
            if held:  # the next writer goes on behind the last object
                index.set_pack(pack, max(held))
            else:
                index.drop_pack(pack)
            index.clear_cached_pages()


def move_aside(path: str) -> None:
    """Move what is no pack out of the way, under a name that says so."""
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, path + _ASIDE)


def _readable_size(folder: str, pack: int) -> int:
    """How much of a pack is there; nothing where it does not begin as one."""
    file = open_pack(pack_path(folder, pack))
    if file is None:
        return 0
    with file:
        is_pack = file.read(_MARK_BYTES) in {OBJECT, SNAPSHOT}
        return os.fstat(file.fileno()).st_size if is_pack else 0
