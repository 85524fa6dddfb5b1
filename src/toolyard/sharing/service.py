"""The sharing service of one agent: publishes its snapshots and gives access to those of its peers.

It owns one thread, started with the first snapshot, which publishes the newest snapshot and skips older ones, and its
own connection to the snapshot store. Only `flush` waits for the thread. Failures go to the audit log, and peers
continue to see the previous state. `close()` publishes what is pending, in bounded time.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from toolyard.core.closeable import Closeable
from toolyard.core.errors import ToolyardError
from toolyard.sharing.notifications import PeerNotifications
from toolyard.sharing.peers import Peers
from toolyard.workspace.agent_paths import AgentPaths
from toolyard.workspace.layout import SHARED

if TYPE_CHECKING:
    from toolyard.config.models import Config
    from toolyard.config.settings import Settings
    from toolyard.policy.policy import Policy
    from toolyard.sharing.provenance import Provenance
    from toolyard.sharing.visibility import VisibilityFilter
    from toolyard.snapshots import Snapshot, SnapshotResult

_CLOSE_SECONDS = 10.0
_CATCH_UP_SECONDS = 10.0
"""Between two checks of the peers; each check costs something per peer."""
_MIN_PEER_AGE_SECONDS = 5.0
"""An agent that is alive is about to publish younger snapshots itself."""


def build_sharing(home: AgentPaths, config: Config, settings: Settings, log: Callable[[str], None]) -> SharingService:
    """Creates the service for an agent of a layout that has peers."""
    from toolyard.policy.builder import policy_for

    def policy_at(workspace: str) -> Policy:
        # Only the rules of the file: restrictions that protect agents from each other do not apply here.
        return replace(policy_for(config, settings, home.workspace, agent=home.agent), workspace=workspace)

    beside = os.path.join(home.workspace, SHARED)
    is_ours = os.path.islink(beside) and os.readlink(beside) == home.shared_folder
    return SharingService(home, SHARED if is_ours else home.shared_folder, policy_at, log)


class _DeadlineExceeded(Exception):  # noqa: N818 - the end, not an error
    """The time limit for closing has passed."""


class SharingService(Closeable):
    """Publishes one agent's snapshots and reads those of its peers."""

    def __init__(
        self, home: AgentPaths, prefix: str, policy_at: Callable[[str], Policy], log: Callable[[str], None]
    ) -> None:
        """`policy_at` returns the configured policy for a workspace; `log` writes to the audit log.

        `prefix` is the agent's path of the shared folder.
        """
        self.paths = home
        self.prefix = prefix
        self.peers = Peers(home.shared_folder, home.peers)
        self.notifications = PeerNotifications(self.peers, prefix)
        self._policy_at = policy_at
        self._log = log
        self._ready = threading.Condition()
        self._thread: threading.Thread | None = None
        self._pending: Snapshot | None = None
        self._is_busy = False
        self._is_closed = False
        self._deadline = float("inf")
        self._catch_up_at = float("-inf")
        self._provenance: Provenance | None = None

    def on_snapshot_taken(self, taken: SnapshotResult) -> None:
        """Schedules a new snapshot of this agent for publication."""
        with self._ready:
            if self._is_closed:
                return
            self._pending = taken.snapshot
            if self._thread is None:
                self._thread = threading.Thread(target=self._publish_loop, name="toolyard-sharing", daemon=True)
                self._thread.start()
            self._ready.notify_all()

    def flush(self, seconds: float | None = None) -> bool:
        """Waits until the pending snapshot is published or has failed. Returns False on timeout."""
        with self._ready:
            return self._ready.wait_for(lambda: self._pending is None and not self._is_busy, seconds)

    def catch_up(self, *, min_age_seconds: float = 0.0) -> None:
        """Publishes snapshots of peers that ended before they published, or that published under other rules.

        Snapshots younger than `min_age_seconds` are left to their agents. Takes long; disk errors are logged, not
        raised.
        """
        from toolyard.sharing.publisher import Publisher
        from toolyard.sharing.visibility import filter_stamp
        from toolyard.snapshots import SnapshotStore

        try:
            with SnapshotStore(self.paths.snapshots_folder) as store:
                publisher = Publisher(self.paths.shared_folder, self.paths.state, store)
                newest_first = store.list()
                # Several agents may work in one folder: its newest snapshot may hold changes of another agent only.
                of_folder = {one.root: one for one in reversed(newest_first)}
                newest = {agent: of_folder[one.root] for one in reversed(newest_first) for agent in one.agents}
                rules = [rule.identity for rule in self._policy_at(self.paths.workspace).rules]
                before = time.time_ns() - int(min_age_seconds * 1e9)
                for agent in self.peers.agents:
                    snapshot, note = newest.get(agent), self.peers.manifest_of(agent)
                    if snapshot is None:
                        continue
                    stamp = filter_stamp(rules, snapshot.root, self.paths.root, self.peers.folder_of(agent))
                    is_news = note is None or note.number < snapshot.number
                    if (is_news and snapshot.time_ns <= before) or (note is not None and note.stamp != stamp):
                        publisher.publish(
                            agent, snapshot, self.filter_for(agent, snapshot.root), self._check_deadline
                        )
        except _DeadlineExceeded:
            return
        except (ToolyardError, OSError, sqlite3.Error) as error:
            self._log(f"The latest snapshots of peers could not be checked: {error}")

    def filter_for(self, agent: str, workspace: str) -> VisibilityFilter:
        """Returns the filter for the files of an agent in `workspace` that its peers may see."""
        from toolyard.sharing.visibility import VisibilityFilter

        policy = self._policy_at(workspace)
        return VisibilityFilter(
            policy, workspace=workspace, root=self.paths.root, published_folder=self.peers.folder_of(agent)
        )

    @property
    def provenance(self) -> Provenance:
        """The origins of merged files of all agents of the layout. Opened on first use."""
        from toolyard.sharing.provenance import Provenance

        with self._ready:
            if self._provenance is None:
                self._provenance = Provenance(self.paths.state)
            return self._provenance

    def close(self) -> None:
        """Publishes what is pending, in bounded time, and ends the thread."""
        with self._ready:
            self._is_closed = True
            self._deadline = time.monotonic() + _CLOSE_SECONDS
            self._ready.notify_all()
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS + 1)  # a thread that hangs on a dead disk ends with the process
        if self._provenance is not None:
            self._provenance.close()

    def _publish_loop(self) -> None:
        while (snapshot := self._next_snapshot()) is not None:
            try:
                self._publish(snapshot)
            except _DeadlineExceeded:
                self._log("The last changes were not shared: the time limit for closing was reached.")
            except Exception as error:  # noqa: BLE001 - outermost frame of the thread: the next snapshot must still be published
                self._log(f"Snapshot {snapshot.id} could not be shared: {error}")
            finally:
                with self._ready:
                    self._is_busy = False
                    self._ready.notify_all()

    def _next_snapshot(self) -> Snapshot | None:
        with self._ready:
            self._ready.wait_for(lambda: self._pending is not None or self._is_closed)
            snapshot, self._pending = self._pending, None
            self._is_busy = snapshot is not None
            return snapshot

    def _publish(self, snapshot: Snapshot) -> None:
        from toolyard.sharing.publisher import Publisher
        from toolyard.snapshots import SnapshotStore

        agent = self.paths.agent
        with SnapshotStore(self.paths.snapshots_folder) as store:
            publisher = Publisher(self.paths.shared_folder, self.paths.state, store)
            publisher.publish(agent, snapshot, self.filter_for(agent, self.paths.workspace), self._check_deadline)
        if time.monotonic() >= self._catch_up_at:
            self.catch_up(min_age_seconds=_MIN_PEER_AGE_SECONDS)
            self._catch_up_at = time.monotonic() + _CATCH_UP_SECONDS

    def _check_deadline(self) -> None:
        if time.monotonic() > self._deadline:
            raise _DeadlineExceeded
