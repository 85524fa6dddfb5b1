"""Tracks which file contents each session has seen, so that a Write never replaces unseen content."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict

_MAX_FILES = 20_000


class ReadTracker:
    """Remembers a bounded number of files; the least recently used are dropped first. Thread-safe."""

    def __init__(self) -> None:
        self._digests: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._lock = threading.Lock()

    def record(self, session: str, path: str, data: bytes) -> None:
        """Records `data` as the content of the file that this session knows."""
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
        """Whether `data` differs from what this session last read or wrote at this path."""
        with self._lock:
            digest = self._digests.get((session, path))
        # Compares content, not timestamps: a change within one clock tick keeps the time, and `touch` alters only it.
        return digest is not None and digest != _digest(data)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
