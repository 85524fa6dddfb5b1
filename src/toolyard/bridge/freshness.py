"""Decides how long a cached file is used before it is checked for changes."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from toolyard.bridge.cache import CachedFile
from toolyard.bridge.sampling_answers import FileStatus

REVALIDATE_SECONDS = 5.0
MAX_AGE_SECONDS = 300.0
_JUST_PUSHED_SECONDS = 60.0
"""Maximum age of a file for `fresh=True` if the client cannot be asked: the agent has just pushed it."""
_MAX_CHECKS = 100_000
_MTIME_TOLERANCE_SECONDS = 1.0
"""An mtime that is earlier by this much is a change (as by `cp -p`); a smaller difference is rounding."""


@dataclass(slots=True)
class Freshness:
    """Tracks when cached files were last checked. Thread-safe."""

    revalidate_seconds: float = REVALIDATE_SECONDS
    """The age at which a client that supports sampling is asked whether the file has changed."""
    max_age_seconds: float | None = MAX_AGE_SECONDS
    """The maximum age of a file of a client that cannot be asked; None: no limit."""
    clock: Callable[[], float] = time.time
    _checks: OrderedDict[tuple[str, str], float] = field(default_factory=OrderedDict[tuple[str, str], float])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def needs_check(self, client: str, file: CachedFile) -> bool:
        """Whether the client must be asked if the file has changed."""
        with self._lock:
            known = max(file.stored, self._checks.get((client, file.path), 0.0))
        return self.clock() - known >= self.revalidate_seconds

    def is_too_old(self, file: CachedFile, *, fresh: bool) -> bool:
        """Whether the file of a client that cannot be asked is too old to be used."""
        limit = _JUST_PUSHED_SECONDS if fresh else self.max_age_seconds
        return limit is not None and self.clock() - file.stored > limit

    def record_check(self, client: str, path: str) -> None:
        """Records that the client has just reported a file as unchanged."""
        with self._lock:
            self._checks[client, path] = self.clock()
            self._checks.move_to_end((client, path))
            if len(self._checks) > _MAX_CHECKS:
                self._checks.popitem(last=False)


def is_changed(file: CachedFile, status: FileStatus) -> bool:
    """Whether a file differs from the cached one. An unknown modification time counts as a change."""
    if status.size != file.size or status.mtime is None:
        return True
    if file.mtime is None:
        return status.mtime > file.stored
    return status.mtime > file.mtime or status.mtime <= file.mtime - _MTIME_TOLERANCE_SECONDS
