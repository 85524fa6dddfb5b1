"""How often skills are used: imported by code that an agent runs, or read as resources.

Contract: a use is noted in memory and written a moment later in a thread of its own, with whatever was noted by then.
`close()` writes what is left. What code says it imported is believed only where there is such a skill, and no more
than a few for each run; the file has a bounded number of rows, so nothing that an agent does makes it grow further.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Iterable

from toolyard.core.closeable import Closing
from toolyard.core.errors import ToolyardError
from toolyard.files.roots import Root
from toolyard.skills.library import Shelf
from toolyard.workspace.layout import SKILLS

_MOST_A_RUN = 64
_MOST_NOTED = 1_000
_AFTER_SECONDS = 2.0


class UseCounter(Closing):
    """Used from any thread. `state` is the state folder that belongs to the shelf."""

    def __init__(self, shelf: Shelf, state: str) -> None:
        self._shelf, self._state = shelf, state
        self._noted: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._is_closed = False

    def imported(self, folders: Iterable[object]) -> None:
        """Modules in these folders were imported, as a run says."""
        found = {skill for folder in list(folders)[:_MOST_A_RUN] if (skill := self._skill(folder)) is not None}
        for skill in found:
            self.used(skill)

    def used(self, skill: str) -> None:
        """One use of a skill, `<owner>/<name>`."""
        with self._lock:
            if self._is_closed or len(self._noted) >= _MOST_NOTED:
                return
            self._noted[skill, self._shelf.agent] += 1
            if self._timer is None:
                self._timer = threading.Timer(_AFTER_SECONDS, self._write)
                self._timer.daemon = True
                self._timer.start()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            timer = self._timer
        if timer is not None:
            timer.cancel()
            timer.join()
            self._write()

    def _skill(self, folder: object) -> str | None:
        if not isinstance(folder, str):
            return None
        own = os.path.join(self._shelf.root.path, SKILLS)
        for base, parts in ((own, 2), *((attached, 1) for attached in self._shelf.attached)):
            if folder.startswith(f"{base}/"):
                names = folder[len(base) + 1 :].split("/")[:parts]
                is_plain = len(names) == parts and not any(name.startswith(".") for name in names)
                path = "/".join(names)
                if is_plain and os.path.isdir(os.path.join(base, path)):
                    return path if parts > 1 else os.path.join(base, path)
        return None

    def _write(self) -> None:
        from toolyard.skills.usage_stats import Uses

        with self._lock:
            noted, self._noted, self._timer = dict(self._noted), Counter(), None
        if not noted:
            return
        with contextlib.suppress(ToolyardError):  # a count is not worth failing for
            root = Root(self._state)
            try:
                Uses(root).add_all(noted)
            finally:
                root.close()
