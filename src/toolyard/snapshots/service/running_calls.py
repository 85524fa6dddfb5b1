"""Tracks the calls that may be changing one folder, to attribute changes that the watcher sees."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from toolyard.core.closeable import Closeable
from toolyard.core.errors import ToolyardError
from toolyard.core.paths import is_beneath
from toolyard.snapshots.store.models import AGENT_SEPARATOR

if TYPE_CHECKING:
    from toolyard.sandbox.spec import ChangedPath
    from toolyard.snapshots import PathChange, Snapshot
    from toolyard.snapshots.service.change_authors import Authors, Interval

WATCHED = "a change from outside"
"""Used in place of a tool name: another program changed something."""
_SHOWN_TOOLS = 3
"""Separates the agents in the label of a snapshot."""


class RunningCalls(Closeable):
    """The running calls of one folder. Used from any thread.

    Owns the record of authors from its first use until `close()`.
    """

    def __init__(
        self, root: str, agent: str, authors_folder: str = "", log: Callable[[str], None] = lambda _: None
    ) -> None:
        """`authors_folder` is where calls are recorded; empty where only one agent works in `root`."""
        self._root = root
        self._agent = agent
        self._authors_folder = authors_folder
        self._log = log
        self._numbers = itertools.count(1)
        self._running: dict[int, tuple[str, int]] = {}
        self._opening = threading.Lock()
        self._record: Authors | None = None

    @property
    def records_authors(self) -> bool:
        """Returns whether other agents may work in the same folder. Recording a call takes a moment."""
        return bool(self._authors_folder)

    def begin(self, tool: str, path: str | None = None) -> int:
        """Notes that a call is about to change `path`, or anything. Returns the number to end it with."""
        number = next(self._numbers)
        recorded = 0
        if (authors := self._open_authors()) is not None:
            inside = os.path.relpath(path, self._root) if path is not None and is_beneath(path, self._root) else "."
            named = b"" if inside == "." else os.fsencode(inside)
            recorded = authors.begin(self._root, self._agent, tool, named)
        self._running[number] = (tool, recorded)
        return number

    def end(self, number: int) -> None:
        """Notes that a call has ended."""
        _, recorded = self._running.pop(number)
        if recorded and (authors := self._open_authors()) is not None:
            authors.end(recorded)

    def record_session(self, number: int) -> None:
        """Notes that a call leaves a session running, which may change files until it is closed."""
        if (recorded := self._record_number(number)) and (authors := self._open_authors()) is not None:
            authors.record_session(recorded)

    def set_complete(self, number: int, *, is_complete: bool) -> None:
        """Notes whether all changes of a command are recorded."""
        if (recorded := self._record_number(number)) and (authors := self._open_authors()) is not None:
            authors.set_complete(recorded, is_complete=is_complete)

    def add_changes(self, number: int, paths: Iterable[ChangedPath]) -> None:
        """Records those of the paths that lie in the folder as changed by a command."""
        root = os.fsencode(self._root)
        inside = [
            (changed_path.path[len(root) + 1 :], changed_path.is_tree, changed_path.time_ns)
            for changed_path in paths
            if changed_path.path == root or changed_path.path.startswith(root + b"/")
        ]
        if inside and (recorded := self._record_number(number)) and (authors := self._open_authors()) is not None:
            authors.add_changes(recorded, inside)

    def _record_number(self, number: int) -> int:
        """Returns the call's number in the record; 0 if it has none or has ended."""
        return self._running.get(number, ("", 0))[1]

    def close(self) -> None:
        with self._opening:
            self._authors_folder = ""
            if self._record is not None:
                self._record.end_sessions(self._root, self._agent)
                self._record.close()
                self._record = None

    def _open_authors(self) -> Authors | None:
        """Returns the record, opened on first use; None if there is none or it cannot be opened."""
        if not self._authors_folder:
            return None
        import sqlite3

        from toolyard.snapshots.service.change_authors import Authors

        with self._opening:
            if self._record is None and self._authors_folder:
                try:
                    self._record = Authors(self._authors_folder)
                except (ToolyardError, OSError, sqlite3.Error) as error:
                    self._authors_folder = ""
                    self._log(f"The authors of changes cannot be recorded: {error}")
            return self._record

    def tools_for_watched_change(self) -> tuple[str, ...]:
        """Returns the tools that a change seen only by the watcher is attributed to."""
        return tuple(tool for tool, _ in tuple(self._running.values())) or (WATCHED,)

    def interval(self, since_ns: int, until_ns: int) -> Interval | None:
        """Returns who changed what between two snapshots; None if no other agent works in this folder."""
        authors = self._open_authors()
        if authors is None or not authors.has_others(self._root, self._agent):
            return None
        return authors.interval(self._root, since_ns, until_ns)

    def label(self, snapshot: Snapshot, parent: Snapshot, changes: Iterable[PathChange], after: str = "") -> Snapshot:
        """Returns the snapshot labelled with the agents that made its changes since `parent`; empty if unknown.

        A reason equal to `after` is replaced by the tools of these agents. The snapshot stays unchanged if no other
        agent works in this folder, or if it was not this agent that asked for it.
        """
        if (snapshot.root, snapshot.agent) != (self._root, self._agent):
            return snapshot
        interval = self.interval(parent.time_ns, snapshot.time_ns)
        authors = self._open_authors()
        if interval is None or authors is None:
            return snapshot
        from toolyard.snapshots.service.change_authors import authors_of_any

        agents = authors_of_any(changes, interval)
        reason = snapshot.reason
        if after and reason == after and agents - {self._agent}:
            reason = reason_after(call.tool for call in interval.calls if call.agent in agents)
        return replace(snapshot, agent=AGENT_SEPARATOR.join(authors.in_order(self._root, agents)), reason=reason)


def reason_after(tools: Iterable[str]) -> str:
    """Returns the reason of a snapshot after changes by `tools`."""
    every = {*tools}
    names = sorted(every - {WATCHED}) or sorted(every)
    more = ", ..." if len(names) > _SHOWN_TOOLS else ""
    return f"after {', '.join(names[:_SHOWN_TOOLS])}{more}"
