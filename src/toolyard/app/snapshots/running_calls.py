"""The calls that may be changing one folder now, so that what a watcher sees is given to the call that did it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from toolyard.core.paths import is_beneath

if TYPE_CHECKING:
    from toolyard.workspace.sharing.authors import Authors, Interval

WATCHED = "a change from outside"
"""In place of a tool: somebody else changed something."""
_SHOWN_TOOLS = 3


class RunningCalls:
    """Used from any thread."""

    def __init__(self, root: str, agent: str) -> None:
        self._root = root
        self._agent = agent
        self._numbers = itertools.count(1)
        self._running: dict[int, tuple[str, int]] = {}
        self.authors: Authors | None = None
        """Where calls are recorded, if other agents may work in the same folder. That takes a moment."""

    def begin(self, tool: str, path: str | None = None) -> int:
        """A call is about to change `path`, or anything. The number to end it with."""
        number = next(self._numbers)
        recorded = 0
        if self.authors is not None:
            inside = os.path.relpath(path, self._root) if path is not None and is_beneath(path, self._root) else "."
            named = b"" if inside == "." else os.fsencode(inside)
            recorded = self.authors.begin(self._root, self._agent, tool, named)
        self._running[number] = (tool, recorded)
        return number

    def end(self, number: int) -> None:
        _, recorded = self._running.pop(number)
        if recorded and self.authors is not None:
            self.authors.end(recorded)

    def makers_of_watched(self) -> tuple[str, ...]:
        """The tools that a change is put down to which only the watcher saw."""
        return tuple(tool for tool, _ in tuple(self._running.values())) or (WATCHED,)

    def interval(self, since_ns: int, until_ns: int) -> Interval | None:
        """Who changed what between two snapshots; None where no other agent works in this folder."""
        if self.authors is None or not self.authors.has_others(self._root, self._agent):
            return None
        from toolyard.workspace.sharing.authors import Interval

        return Interval(self._root, self.authors.since(self._root, since_ns), until_ns)

    def attribute(self, tools: Collection[str], newest_ns: Callable[[], int]) -> tuple[str, str]:
        """The agent and the reason of a snapshot after changes by `tools`. `newest_ns`: when the last one was taken.

        What only a watcher saw is the work of another agent, if one alone was at work since then.
        """
        agent, names = self._agent, sorted({*tools} - {WATCHED})
        if not names and self.authors is not None:
            calls = self.authors.since(self._root, newest_ns())
            if len({call.agent for call in calls}) == 1:
                agent, names = calls[0].agent, sorted({call.tool for call in calls})
        names = names or sorted(tools)
        more = ", ..." if len(names) > _SHOWN_TOOLS else ""
        return agent, f"after {', '.join(names[:_SHOWN_TOOLS])}{more}"
