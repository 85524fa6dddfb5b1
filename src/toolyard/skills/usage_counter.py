"""Counts how often skills are used: imported by code that an agent runs, or read as resources.

Uses are collected in memory and written a moment later in a separate thread. `close()` writes the rest. A reported
import counts only if such a skill exists, with a limit per run. The file has a bounded number of rows, so an agent
cannot make it grow further.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Iterable

from toolyard.core.closeable import Closeable
from toolyard.core.errors import ToolyardError
from toolyard.files.roots import Root
from toolyard.skills.library import SkillLibrary
from toolyard.workspace.layout import SKILLS

_MAX_PER_RUN = 64
_MAX_PENDING = 1_000
_DELAY_SECONDS = 2.0


class SkillUsageCounter(Closeable):
    """Thread-safe. `state` is the state folder that belongs to the library."""

    def __init__(self, library: SkillLibrary, state: str) -> None:
        self._library, self._state = library, state
        self._counts: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._is_closed = False

    def record_imports(self, folders: Iterable[object]) -> None:
        """Records that a run imported modules from these folders."""
        found = {skill for folder in list(folders)[:_MAX_PER_RUN] if (skill := self._skill_in(folder)) is not None}
        for skill in found:
            self.record_use(skill)

    def record_use(self, skill: str) -> None:
        """Records one use of a skill, `<owner>/<name>`."""
        with self._lock:
            if self._is_closed or len(self._counts) >= _MAX_PENDING:
                return
            self._counts[skill, self._library.agent] += 1
            if self._timer is None:
                self._timer = threading.Timer(_DELAY_SECONDS, self._write_counts)
                self._timer.daemon = True
                self._timer.start()

    def close(self) -> None:
        """Writes the pending counts."""
        with self._lock:
            self._is_closed = True
            timer = self._timer
        if timer is not None:
            timer.cancel()
            timer.join()
            self._write_counts()

    def _skill_in(self, folder: object) -> str | None:
        if not isinstance(folder, str):
            return None
        own = os.path.join(self._library.root.path, SKILLS)
        for base, parts in ((own, 2), *((attached, 1) for attached in self._library.attached)):
            if folder.startswith(f"{base}/"):
                names = folder[len(base) + 1 :].split("/")[:parts]
                is_plain = len(names) == parts and not any(name.startswith(".") for name in names)
                path = "/".join(names)
                if is_plain and os.path.isdir(os.path.join(base, path)):
                    return path if parts > 1 else os.path.join(base, path)
        return None

    def _write_counts(self) -> None:
        from toolyard.skills.usage_stats import UsageStats

        with self._lock:
            noted, self._counts, self._timer = dict(self._counts), Counter(), None
        if not noted:
            return
        with contextlib.suppress(ToolyardError):  # a lost count must not fail the session
            root = Root(self._state)
            try:
                UsageStats(root).add_all(noted)
            finally:
                root.close()
