"""The Keeper takes snapshots of one workspace: before its first change, after changes, and on demand.

It owns the store, which is opened when first needed, one thread that takes all snapshots, and the watcher. Nothing is
opened or started before something is about to change. Nobody waits for the thread but who asks for a snapshot and,
for a bounded time, the first change. A snapshot that cannot be taken is reported once, in the audit log and with the
next result, and before every command that may destroy something; with `snapshots.required` it stops the call.
`close()` takes what is pending, in bounded time, and ends both threads.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as WaitedTooLong
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from toolyard.config.snapshots import BASELINE_REASON, Snapshots
from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault, ToolyardError
from toolyard.snapshots.service.disk_quota import DiskQuota
from toolyard.snapshots.service.errors import failure_reason, open_fault, snapshot_required_fault, store_error_types
from toolyard.snapshots.service.notices import Notices
from toolyard.snapshots.service.running_calls import RunningCalls, reason_after
from toolyard.snapshots.service.size_limit import SizeLimit, WorkspaceTooLarge
from toolyard.snapshots.service.worker_thread import PendingSnapshot, SnapshotCancelled, SnapshotThread

if TYPE_CHECKING:
    from toolyard.snapshots import PathChange, Snapshot, SnapshotResult, SnapshotStore
    from toolyard.snapshots.service.watcher import Watcher

_BASELINE_SECONDS = 5.0
"""How long the first change waits for the snapshot of what was there."""
_RISKY_SECONDS = 20.0
"""The same for a command that may delete or overwrite files."""
_TURN = 0.05
_YIELD_SECONDS = 0.001
_FRESH_SECONDS = 60.0
"""Where nobody watches the folder, a snapshot stands so long for what the user has there."""
_LONGEST_AUTOMATIC = 120.0
_PAUSE_SECONDS = 60.0
"""After a snapshot that failed, until the next is tried."""
_TOO_LARGE_PAUSE = 600.0
_CLOSE_SECONDS = 10.0
_LOCK_SECONDS = 30.0
_COLLECT_EVERY = 25
_WORTH_COLLECTING = 10
_SECONDS_A_DAY = 86_400.0
OUTPUT_RULE = "/.toolyard/output/"
"""What runs printed, kept by us for the agent to read: no work of anybody's."""

SnapshotCallback = Callable[["SnapshotResult"], None]


class WaitingCall(Protocol):
    """What the Keeper asks of a call that is about to change something: a Gate, or the command line."""

    def require_thread(self) -> None: ...

    def check_time(self) -> None: ...

    def add_result_note(self, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class SnapshotLocation:
    """What is kept, and where."""

    root: str
    """The real path of the workspace."""
    folder: str
    """Of the store, outside the workspace."""
    agent: str
    own_links: Callable[[], Sequence[str]] = tuple
    """Names in the workspace that are links of ours at this moment: they are no part of it."""
    is_context_path: bool = False
    """Whether it is a context path, and not the workspace."""
    authors_folder: str = ""
    """The folder of the record of whose call changed what; empty where only one agent works here."""


class AutoSnapshots(Closeable):
    def __init__(self, location: SnapshotLocation, section: Snapshots, log: Callable[[str], None]) -> None:
        """`add_result_note` puts a sentence into the audit log."""
        self.location = location
        self.section = section
        self._log = log
        self.calls = RunningCalls(location.root, location.agent, location.authors_folder, log)
        self._lock = threading.Lock()
        self._store: SnapshotStore | None = None
        self._watcher: Watcher | None = None
        self._thread = SnapshotThread(self._take_pending)
        self._baseline: Future[object] | None = None
        self._baseline_fresh_until = float("-inf")
        self._has_baseline = False
        self._not_before = float("-inf")
        self._fault: Exception | None = None
        self._is_closed = False
        self._deadline = float("inf")
        self.notices = Notices(log, f" of {location.root}" if location.is_context_path else "")
        self._callbacks: list[SnapshotCallback] = []
        self.newest_id = ""  # the id of the last snapshot that this keeper took or found
        self._created_count = 0
        self._folder_count = 0
        self._prune_at = 1
        self._after = ""  # the reason of the automatic snapshot after changes that is being taken

    # For calls

    def before_change(self, waiter: WaitingCall, *, risky: bool = False) -> str:
        """Keep what is there before something changes it. At once where that is done already.

        `risky`: what comes next may delete or overwrite anything. Then the answer is why that could not be undone,
        empty where it can. Raises SystemFault for any change that could not, where snapshots are required.
        """
        if not self.section.automatic:
            return ""
        required = self.section.required
        if not self._is_baseline_fresh or ((risky or required) and self._can_retry):
            waiter.require_thread()
            seconds = float("inf") if required else _RISKY_SECONDS if risky else _BASELINE_SECONDS
            if not self._wait_for_baseline(waiter, seconds):
                if risky:
                    return "the snapshot of what is here is still being taken"
                waiter.add_result_note(
                    "[The snapshot of what was here before is still being taken, and may hold this change.]"
                )
                return ""
        if self._fault is None:
            return ""
        if required:
            raise snapshot_required_fault(self._fault)
        return failure_reason(self._fault) if risky else ""

    @property
    def _can_retry(self) -> bool:
        """Whether the newest snapshot failed for a reason that may have passed. A folder does not shrink so soon."""
        return self._fault is not None and not isinstance(self._fault, WorkspaceTooLarge)

    def _wait_for_baseline(self, waiter: WaitingCall, seconds: float) -> bool:
        """Have the baseline taken. False when it is not done after so many seconds."""
        with self._lock:
            if self._baseline is None or self._baseline.done():
                self._baseline = self._thread.submit(self._take_automatic)
            baseline = self._baseline
        until = time.monotonic() + seconds
        while not baseline.done():
            if time.monotonic() > until:
                self._baseline_fresh_until = float("inf")  # nobody else waits for it
                return False
            with contextlib.suppress(WaitedTooLong):
                baseline.exception(_TURN)
            waiter.check_time()
        return True

    @property
    def is_undo_ready(self) -> bool:
        """Whether what is there can be brought back, or nobody wants that."""
        return not self.section.automatic or (self._is_baseline_fresh and self._fault is None)

    @property
    def _is_baseline_fresh(self) -> bool:
        """Whether what is there is held: it was kept a moment ago, or whatever changed since was noticed."""
        return time.monotonic() < self._baseline_fresh_until or (self._has_baseline and self._is_watching)

    def schedule_snapshot(self, tool: str) -> None:
        """Something may have changed: a snapshot follows when it has been quiet for a moment."""
        if self.section.automatic and not self._is_closed:
            self._thread.mark_pending(tool)

    # On demand

    def create(
        self, *, reason: str = "", check: Callable[[], None] = lambda: None, agent: str | None = None
    ) -> SnapshotResult:
        """A snapshot of now. Of a tree that is as it was, the one before, with `schedule_snapshot` false.

        It is the agent's of the place, where no other is named; empty for the user's.

        Raises our errors, and whatever `check` raises. Not for the event loop's thread: it waits.
        """
        has_left = threading.Event()

        def check_cancelled() -> None:
            if has_left.is_set():
                raise SnapshotCancelled
            check()

        made: Future[SnapshotResult] = self._thread.submit(
            lambda: self._take(reason or "on demand", check_cancelled, agent=agent)
        )
        try:
            while True:
                with contextlib.suppress(WaitedTooLong):
                    made.exception(_TURN)
                if made.done():
                    return made.result()
                check()
        except BaseException:
            has_left.set()
            made.cancel()
            raise

    def flush(self) -> None:
        """Take now what is pending, and wait for it."""
        if self._thread.is_started:
            with contextlib.suppress(ToolyardError):
                self._thread.submit(self._take_if_pending).result()

    @property
    def store(self) -> SnapshotStore:
        """The store, opened now where it was not. Raises our errors."""
        with self._lock:
            if self._is_closed:
                raise SystemFault("The workspace is closed.", hint="Open it again.")
            return self._open_store_with_rules()

    def ignore_rules(self) -> tuple[str, ...]:
        """What is left out of snapshots now, in gitignore's spelling."""
        from toolyard.snapshots import DEFAULT_RULES

        links = tuple(f"/{name}" for name in self.location.own_links())
        return (*DEFAULT_RULES, OUTPUT_RULE, *self.section.ignore, *links)

    def on_snapshot(self, callback: SnapshotCallback) -> None:
        """Have `callback` called with each snapshot, in the Keeper's thread; `schedule_snapshot` says whether it is new."""
        self._callbacks.append(callback)

    def close(self) -> None:
        self._deadline = time.monotonic() + _CLOSE_SECONDS
        self._is_closed = True
        if self._watcher is not None:
            self._watcher.stop()
        ended = self._thread.close(_CLOSE_SECONDS + _TURN)
        if self._watcher is not None:
            self._watcher.close()
        with self._lock:
            if ended:  # a thread that hangs on a dead disk still uses them; they go with the process
                self.calls.close()
                if self._store is not None:
                    self._store.close()
                    self._store = None

    def _open_store_with_rules(self) -> SnapshotStore:
        """The store, with the rules of now. The lock is held."""
        if self._store is None:
            self._store = self._open_store()
        self._store.options = replace(self._store.options, ignore=self.ignore_rules(), label=self._label)
        return self._store

    # In the thread

    def _open_store(self) -> SnapshotStore:
        from toolyard.snapshots import SnapshotStore, StoreOptions

        try:
            return SnapshotStore(self.location.folder, StoreOptions(lock_seconds=_LOCK_SECONDS))
        except ToolyardError:
            raise
        except store_error_types() as error:
            raise open_fault(self.location.folder, error) from error

    def _take_if_pending(self) -> None:
        quiet = self._thread.take_pending()
        if quiet is not None:
            self._take_pending(quiet)

    def _take_pending(self, quiet: PendingSnapshot) -> float:
        """Take the snapshot after changes. How long it took, so that the next one is not too soon."""
        began = time.monotonic()
        if began < self._not_before and not self._is_closed:
            self._thread.put_back(quiet, self._not_before)
            return 0.0
        if self._take_automatic(quiet.tools):
            self._prune_occasionally()
            self._watch()
        return time.monotonic() - began

    def _take_automatic(self, tools: Collection[str] = ()) -> bool:
        """Take a snapshot after changes by `tools`, or the baseline. Never raises: what cannot be done is told."""
        until = time.monotonic() + _LONGEST_AUTOMATIC
        budget = SizeLimit(self.section.most_files, self.section.most_bytes)
        room = DiskQuota(self.location.folder, self.section.most_stored)

        def check() -> None:
            room.check()
            if time.monotonic() > until:
                raise WorkspaceTooLarge(f"a snapshot took longer than {_LONGEST_AUTOMATIC:g} seconds")

        try:
            self._after = reason_after(tools) if tools else ""
            self._take(self._after or BASELINE_REASON, check, budget=budget.add_folder)
        except SnapshotCancelled:
            return False
        except Exception as error:  # noqa: BLE001 - the thread's edge: without it the next snapshot would never come
            self._handle_failure(error)
            return False
        finally:
            self._after = ""
            self._baseline_fresh_until = max(time.monotonic() + _FRESH_SECONDS, self._not_before)
            self._has_baseline = True
        self._fault = None
        self.notices.clear_failure()
        return True

    def _take(
        self,
        reason: str,
        check: Callable[[], None],
        *,
        budget: Callable[[int, int], None] | None = None,
        agent: str | None = None,
    ) -> SnapshotResult:
        yielded = time.monotonic()

        def check_deadline() -> None:
            nonlocal yielded
            now = time.monotonic()
            if now > self._deadline:
                raise SnapshotCancelled
            if now - yielded > _YIELD_SECONDS:
                time.sleep(0)  # whoever waits for the interpreter, the event loop say, has it now
                yielded = now
            check()

        with self._lock:
            store = self._open_store_with_rules()
        place = self.location
        who = place.agent if agent is None else agent
        taken = store.create(
            place.root, agent=who, reason=reason, check=check_deadline, only_changed=True, budget=budget
        )
        self.newest_id = taken.snapshot.id
        self._created_count += taken.changed
        for callback in tuple(self._callbacks):
            try:
                callback(taken)
            except Exception as error:  # noqa: BLE001 - somebody else's code, in our thread
                self._log(f"After snapshot {taken.snapshot.id}: {type(error).__name__}: {error}")
        self._folder_count = taken.snapshot.counts.folders
        self.notices.report_unaccepted_rules(taken)
        return taken

    def _label(self, snapshot: Snapshot, parent: Snapshot, changes: Iterable[PathChange]) -> Snapshot:
        """The snapshot with the names of the agents that made its changes, if that can be found out."""
        try:
            return self.calls.label(snapshot, parent, changes, self._after)
        except store_error_types() as error:  # better under this agent's name than not at all
            self._log(f"Whose changes snapshot {snapshot.id} holds is unknown: {error}")
            return snapshot

    def _on_watched_change(self) -> None:
        for tool in self.calls.tools_for_watched_change():
            self.schedule_snapshot(tool)

    @property
    def _is_watching(self) -> bool:
        return self._watcher is not None and self._watcher.is_watching

    def _watch(self) -> None:
        """Start to watch what programs change, once, where that is possible.

        With the first snapshot after a change, not before: a session that is over by then needs no watcher, which
        takes a moment to end.
        """
        if self._watcher is not None or self._is_closed or not (self.section.automatic and self.section.watch):
            return
        from toolyard.snapshots.archive.ignore_files import AcceptedRules
        from toolyard.snapshots.service.watcher import Watcher

        place = self.location
        self._watcher = Watcher(
            *(place.root, self.ignore_rules, self._on_watched_change, self._log),
            accepted=lambda: AcceptedRules.load(place.folder, place.root),
        )
        self._watcher.start(self._folder_count)

    def _handle_failure(self, error: Exception) -> None:
        pause = _TOO_LARGE_PAUSE if isinstance(error, WorkspaceTooLarge) else _PAUSE_SECONDS
        self._not_before = time.monotonic() + pause
        self._fault = error
        self.notices.report_failure(error)

    def _prune_occasionally(self) -> None:
        """Let old snapshots go, now and then and only when it is worth it."""
        if self._created_count < self._prune_at or self._is_closed:
            return
        self._prune_at = self._created_count + _COLLECT_EVERY
        from toolyard.snapshots.store.prune import expired_snapshots

        seconds = self.section.days * _SECONDS_A_DAY
        try:
            with self._lock:
                store = self._open_store_with_rules()
            old = expired_snapshots(store.list(), self.section.keep, time.time_ns() - int(seconds * 1e9))
            if len(old) >= _WORTH_COLLECTING:
                store.gc(keep=self.section.keep, newer_than=seconds, check=self._stop_when_closed)
        except SnapshotCancelled:
            return
        except store_error_types() as error:
            self._log(f"Old snapshots could not be collected: {error}")

    def _stop_when_closed(self) -> None:
        if self._is_closed:
            raise SnapshotCancelled
