"""What each session knows of each file, so that a Write never lands on content nobody has looked at."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict

_MAX_FILES = 20_000


class ReadTracker:
    """Remembers a bounded number of files, the least recently used forgotten first. Safe to use from threads."""

    def __init__(self) -> None:
        self._digests: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._lock = threading.Lock()

    def record(self, session: str, path: str, data: bytes) -> None:
        digest = _digest(data)
        with self._lock:
            self._digests[session, path] = digest
            self._digests.move_to_end((session, path))
            if len(self._digests) > _MAX_FILES:
                self._digests.popitem(last=False)

    def has_seen(self, session: str, path: str) -> bool:
        """Whether this session has read or written the file."""
        with self._lock:
            return (session, path) in self._digests

    def has_changed(self, session: str, path: str, data: bytes) -> bool:
        """Whether the file holds something else than what this session last read or wrote there."""
        with self._lock:
            digest = self._digests.get((session, path))
        # Content decides, not time stamps: a clock tick can hide a change, and touching a file is none.
        return digest is not None and digest != _digest(data)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
