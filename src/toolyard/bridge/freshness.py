"""How long a file that a client handed over is used without looking whether it has changed since."""

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
"""How old a file may be for `fresh=True` where the client cannot be asked: the agent has just pushed it."""
_MAX_CHECKS = 100_000
_MTIME_TOLERANCE_SECONDS = 1.0
"""A time this much earlier is another one, as `cp -p` sets it; less is a fraction that the client left out."""


@dataclass(slots=True)
class Freshness:
    revalidate_seconds: float = REVALIDATE_SECONDS
    """The age at which a client that can be asked is asked whether the file has changed."""
    max_age_seconds: float | None = MAX_AGE_SECONDS
    """The age at which the file of a client that cannot be asked is not used any more; None: no such age."""
    clock: Callable[[], float] = time.time
    _checks: OrderedDict[tuple[str, str], float] = field(default_factory=OrderedDict[tuple[str, str], float])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def needs_check(self, client: str, file: CachedFile) -> bool:
        """Whether a client that can be asked is to be asked."""
        with self._lock:
            known = max(file.stored, self._checks.get((client, file.path), 0.0))
        return self.clock() - known >= self.revalidate_seconds

    def is_too_old(self, file: CachedFile, *, fresh: bool) -> bool:
        """Whether the file of a client that cannot be asked is too old to be used."""
        limit = _JUST_PUSHED_SECONDS if fresh else self.max_age_seconds
        return limit is not None and self.clock() - file.stored > limit

    def record_check(self, client: str, path: str) -> None:
        """The client has just said that a file is as it was."""
        with self._lock:
            self._checks[client, path] = self.clock()
            self._checks.move_to_end((client, path))
            if len(self._checks) > _MAX_CHECKS:
                self._checks.popitem(last=False)


def is_changed(file: CachedFile, status: FileStatus) -> bool:
    """Whether a file is another one than the one that was handed over. A time that is not known may be any."""
    if status.size != file.size or status.mtime is None:
        return True
    if file.mtime is None:
        return status.mtime > file.stored
    return status.mtime > file.mtime or status.mtime <= file.mtime - _MTIME_TOLERANCE_SECONDS
