"""AutoSnapshots takes snapshots of one workspace: before its first change, after changes, and on demand.

It owns the store, which is opened on first use, one thread that takes all snapshots, and the watcher. Nothing is
opened or started before the first change. Only a request for a snapshot and, for a bounded time, the first change
wait for the thread. A snapshot that cannot be taken is reported once, in the audit log and with the next result, and
before every command that may destroy something; with `snapshots.required` it blocks the call. `close()` takes the
pending snapshot, in bounded time, and ends both threads.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as WaitedTooLong
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from toolyard.config.snapshots import BASELINE_REASON, Snapshots
from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault, ToolyardError
from toolyard.snapshots.service.notices import (
    Notices,
    failure_reason,
    open_fault,
    snapshot_required_fault,
    store_error_types,
)
from toolyard.snapshots.service.running_calls import RunningCalls, reason_after
from toolyard.snapshots.service.size_limits import DiskQuota, SizeLimit, WorkspaceTooLarge

if TYPE_CHECKING:
    from toolyard.snapshots import PathChange, Snapshot, SnapshotResult, SnapshotStore
    from toolyard.snapshots.service.watcher import Watcher

QUIET_SECONDS = 1.0
"""A pending snapshot is taken once nothing has changed for this long."""
LATEST_SECONDS = 10.0
"""A pending snapshot is taken at the latest after this time."""
_REST = 10.0
"""The thread rests ten times as long as it worked, so that it never uses more than a tenth of a processor."""
_BASELINE_SECONDS = 5.0
"""How long the first change waits for the snapshot of the state before it."""
_RISKY_SECONDS = 20.0
"""How long a command that may delete or overwrite files waits for it."""
_TURN = 0.05
_YIELD_SECONDS = 0.001
_FRESH_SECONDS = 60.0
"""Without a watcher, the latest snapshot counts as current for this long."""
_LONGEST_AUTOMATIC = 120.0
_PAUSE_SECONDS = 60.0
"""Wait after a failed snapshot before the next attempt."""
_TOO_LARGE_PAUSE = 600.0
_CLOSE_SECONDS = 10.0
_LOCK_SECONDS = 30.0
_COLLECT_EVERY = 25
_WORTH_COLLECTING = 10
_SECONDS_A_DAY = 86_400.0
OUTPUT_RULE = "/.toolyard/output/"
"""Output of commands that Toolyard saves for the agent to read; not part of the user's work."""

T = TypeVar("T")
Task = Callable[[], None]
SnapshotCallback = Callable[["SnapshotResult"], None]


class SnapshotCancelled(Exception):  # noqa: N818 - not an error: the caller no longer waits
    """The snapshot was cancelled: its caller no longer waits, or the workspace is closing."""


class WaitingCall(Protocol):
    """What AutoSnapshots needs from a call that is about to change something: a CallContext, or the command line."""

    def require_thread(self) -> None: ...

    def check_time(self) -> None: ...

    def add_result_note(self, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class SnapshotLocation:
    """The folder to take snapshots of, and the store that they go to."""

    root: str
    """The real path of the workspace."""
    folder: str
    """The folder of the store, outside the workspace."""
    agent: str
    own_links: Callable[[], Sequence[str]] = tuple
    """Returns the names in the workspace that are currently Toolyard's own links: snapshots leave them out."""
    is_context_path: bool = False
    """Whether it is a context path, and not the workspace."""
    authors_folder: str = ""
    """The folder of the record of which call changed which file; empty where only one agent works here."""


class AutoSnapshots(Closeable):
    """Takes and schedules the snapshots of one folder. Used from any thread."""

    def __init__(self, location: SnapshotLocation, section: Snapshots, log: Callable[[str], None]) -> None:
        """`log` writes a sentence to the audit log."""
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
        self.newest_id = ""  # the last snapshot that this object took or found
        self._created_count = 0
        self._folder_count = 0
        self._prune_at = 1
        self._after = ""  # the reason of the automatic snapshot after changes that is being taken

    # Called by tool calls

    def before_change(self, waiter: WaitingCall, *, risky: bool = False) -> str:
        """Makes sure that a snapshot of the current state exists before a change. Returns at once if it already does.

        `risky`: the change may delete or overwrite anything. Then the result is the reason why it could not be
        undone, empty if it can. Raises SystemFault for any change that could not be undone, if snapshots are
        required.
        """
        if not self.section.automatic:
            return ""
        required = self.section.required
        if not self._is_baseline_fresh or ((risky or required) and self._can_retry):
            waiter.require_thread()
            seconds = float("inf") if required else _RISKY_SECONDS if risky else _BASELINE_SECONDS
            if not self._wait_for_baseline(waiter, seconds):
                if risky:
                    return "the snapshot of the current state is still being taken"
                waiter.add_result_note(
                    "[The snapshot of the state before this change is still being taken, and may include the change.]"
                )
                return ""
        if self._fault is None:
            return ""
        if required:
            raise snapshot_required_fault(self._fault)
        return failure_reason(self._fault) if risky else ""

    @property
    def _can_retry(self) -> bool:
        """Returns whether the last snapshot failed for a reason that may have passed, unlike a too large folder."""
        return self._fault is not None and not isinstance(self._fault, WorkspaceTooLarge)

    def _wait_for_baseline(self, waiter: WaitingCall, seconds: float) -> bool:
        """Waits for the baseline snapshot. Returns False if it is not done after `seconds`."""
        with self._lock:
            if self._baseline is None or self._baseline.done():
                self._baseline = self._thread.submit(self._take_automatic)
            baseline = self._baseline
        until = time.monotonic() + seconds
        while not baseline.done():
            if time.monotonic() > until:
                self._baseline_fresh_until = float("inf")  # no later call waits for it again
                return False
            with contextlib.suppress(WaitedTooLong):
                baseline.exception(_TURN)
            waiter.check_time()
        return True

    @property
    def is_undo_ready(self) -> bool:
        """Returns whether the current state can be restored, or automatic snapshots are off."""
        return not self.section.automatic or (self._is_baseline_fresh and self._fault is None)

    @property
    def _is_baseline_fresh(self) -> bool:
        """Returns whether a snapshot has the current state: a recent one, or an older one with a running watcher."""
        return time.monotonic() < self._baseline_fresh_until or (self._has_baseline and self._is_watching)

    def schedule_snapshot(self, tool: str) -> None:
        """Notes that something may have changed: a snapshot follows after a quiet moment."""
        if self.section.automatic and not self._is_closed:
            self._thread.mark_pending(tool)

    # On demand

    def create(
        self, *, reason: str = "", check: Callable[[], None] = lambda: None, agent: str | None = None
    ) -> SnapshotResult:
        """Takes a snapshot now. For an unchanged tree the result is the previous one, with `changed` false.

        `agent` is the agent's label on it: by default the location's agent, empty for the user. Raises our errors,
        and whatever `check` raises. Blocks, so it must not be called in the event loop's thread.
        """
        has_left = threading.Event()

        def check_cancelled() -> None:
            if has_left.is_set():
                raise SnapshotCancelled
            check()

        future: Future[SnapshotResult] = self._thread.submit(
            lambda: self._take(reason or "on demand", check_cancelled, agent=agent)
        )
        try:
            while True:
                with contextlib.suppress(WaitedTooLong):
                    future.exception(_TURN)
                if future.done():
                    return future.result()
                check()
        except BaseException:
            has_left.set()
            future.cancel()
            raise

    def flush(self) -> None:
        """Takes the pending snapshot now, and waits for it."""
        if self._thread.is_started:
            with contextlib.suppress(ToolyardError):
                self._thread.submit(self._take_if_pending).result()

    @property
    def store(self) -> SnapshotStore:
        """Returns the store, and opens it if needed. Raises our errors."""
        with self._lock:
            if self._is_closed:
                raise SystemFault("The workspace is closed.", hint="Open it again.")
            return self._open_store_with_rules()

    def ignore_rules(self) -> tuple[str, ...]:
        """Returns the current rules for what snapshots leave out, in gitignore syntax."""
        from toolyard.snapshots import DEFAULT_RULES

        links = tuple(f"/{name}" for name in self.location.own_links())
        return (*DEFAULT_RULES, OUTPUT_RULE, *self.section.ignore, *links)

    def on_snapshot(self, callback: SnapshotCallback) -> None:
        """Calls `callback` with each snapshot, in the snapshot thread; `changed` says whether it is new."""
        self._callbacks.append(callback)

    def close(self) -> None:
        """Takes the pending snapshot in bounded time, then ends the threads and closes the store."""
        self._deadline = time.monotonic() + _CLOSE_SECONDS
        self._is_closed = True
        if self._watcher is not None:
            self._watcher.stop()
        ended = self._thread.close(_CLOSE_SECONDS + _TURN)
        if self._watcher is not None:
            self._watcher.close()
        with self._lock:
            if ended:  # a thread that hangs on a dead disk still uses them; they close with the process
                self.calls.close()
                if self._store is not None:
                    self._store.close()
                    self._store = None

    def _open_store_with_rules(self) -> SnapshotStore:
        """Returns the store with the current ignore rules. The caller holds the lock."""
        if self._store is None:
            self._store = self._open_store()
        self._store.options = replace(self._store.options, ignore=self.ignore_rules(), label=self._label)
        return self._store

    # Called in the snapshot thread

    def _open_store(self) -> SnapshotStore:
        from toolyard.snapshots import SnapshotStore, StoreOptions

        try:
            return SnapshotStore(self.location.folder, StoreOptions(lock_seconds=_LOCK_SECONDS))
        except ToolyardError:
            raise
        except store_error_types() as error:
            raise open_fault(self.location.folder, error) from error

    def _take_if_pending(self) -> None:
        pending = self._thread.take_pending()
        if pending is not None:
            self._take_pending(pending)

    def _take_pending(self, pending: PendingSnapshot) -> float:
        """Takes the snapshot after changes. Returns the seconds it took, so that the thread can rest accordingly."""
        began = time.monotonic()
        if began < self._not_before and not self._is_closed:
            self._thread.put_back(pending, self._not_before)
            return 0.0
        if self._take_automatic(pending.tools):
            self._prune_occasionally()
            self._watch()
        return time.monotonic() - began

    def _take_automatic(self, tools: Collection[str] = ()) -> bool:
        """Takes a snapshot after changes by `tools`, or the baseline. Never raises: failures become notices."""
        until = time.monotonic() + _LONGEST_AUTOMATIC
        budget = SizeLimit(self.section.most_files, self.section.most_bytes)
        quota = DiskQuota(self.location.folder, self.section.most_stored)

        def check() -> None:
            quota.check()
            if time.monotonic() > until:
                raise WorkspaceTooLarge(f"a snapshot took longer than {_LONGEST_AUTOMATIC:g} seconds")

        try:
            self._after = reason_after(tools) if tools else ""
            self._take(self._after or BASELINE_REASON, check, budget=budget.add_folder)
        except SnapshotCancelled:
            return False
        except Exception as error:  # noqa: BLE001 - outermost level of the thread: an error must not end it
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
        """Takes a snapshot of the location in the snapshot thread, and calls the callbacks."""
        yielded = time.monotonic()

        def check_deadline() -> None:
            nonlocal yielded
            now = time.monotonic()
            if now > self._deadline:
                raise SnapshotCancelled
            if now - yielded > _YIELD_SECONDS:
                time.sleep(0)  # release the GIL to the event loop and other threads
                yielded = now
            check()

        with self._lock:
            store = self._open_store_with_rules()
        location = self.location
        label = location.agent if agent is None else agent
        taken = store.create(
            location.root, agent=label, reason=reason, check=check_deadline, only_changed=True, budget=budget
        )
        self.newest_id = taken.snapshot.id
        self._created_count += taken.changed
        for callback in tuple(self._callbacks):
            try:
                callback(taken)
            except Exception as error:  # noqa: BLE001 - the callback is foreign code in our thread
                self._log(f"After snapshot {taken.snapshot.id}: {type(error).__name__}: {error}")
        self._folder_count = taken.snapshot.counts.folders
        self.notices.report_unaccepted_rules(taken)
        return taken

    def _label(self, snapshot: Snapshot, parent: Snapshot, changes: Iterable[PathChange]) -> Snapshot:
        """Returns the snapshot labelled with the agents that made its changes, if they can be determined."""
        try:
            return self.calls.label(snapshot, parent, changes, self._after)
        except store_error_types() as error:  # better a snapshot with this agent's name than none
            self._log(f"The authors of the changes in snapshot {snapshot.id} are unknown: {error}")
            return snapshot

    def _on_watched_change(self) -> None:
        for tool in self.calls.tools_for_watched_change():
            self.schedule_snapshot(tool)

    @property
    def _is_watching(self) -> bool:
        return self._watcher is not None and self._watcher.is_watching

    def _watch(self) -> None:
        """Starts the watcher once, where that is possible.

        It starts with the first snapshot after a change: a session that ends before that needs no watcher, which
        takes a moment to stop.
        """
        if self._watcher is not None or self._is_closed or not (self.section.automatic and self.section.watch):
            return
        from toolyard.snapshots.archive.ignore_files import AcceptedRules
        from toolyard.snapshots.service.watcher import Watcher

        location = self.location
        self._watcher = Watcher(
            *(location.root, self.ignore_rules, self._on_watched_change, self._log),
            accepted=lambda: AcceptedRules.load(location.folder, location.root),
        )
        self._watcher.start(self._folder_count)

    def _handle_failure(self, error: Exception) -> None:
        pause = _TOO_LARGE_PAUSE if isinstance(error, WorkspaceTooLarge) else _PAUSE_SECONDS
        self._not_before = time.monotonic() + pause
        self._fault = error
        self.notices.report_failure(error)

    def _prune_occasionally(self) -> None:
        """Deletes expired snapshots, from time to time and only if there are enough of them."""
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
            self._log(f"Old snapshots could not be pruned: {error}")

    def _stop_when_closed(self) -> None:
        if self._is_closed:
            raise SnapshotCancelled


@dataclass(slots=True)
class PendingSnapshot:
    """The tools that changed something since the last snapshot, and when the next one is due."""

    tools: set[str]
    due_by: float
    quiet_at: float

    @property
    def due_at(self) -> float:
        return min(self.due_by, self.quiet_at)


class SnapshotThread:
    """One thread that runs tasks one after the other, and the pending snapshot after a quiet moment.

    It starts with the first task. `close()` lets it finish its current task and the pending snapshot, then it ends.
    """

    def __init__(self, take: Callable[[PendingSnapshot], float]) -> None:
        """`take` takes the pending snapshot and returns the seconds of work it cost."""
        self._take = take
        self._ready = threading.Condition()
        self._tasks: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._pending: PendingSnapshot | None = None
        self._rest_until = float("-inf")
        self._is_closed = False
        self._thread: threading.Thread | None = None

    @property
    def is_started(self) -> bool:
        return self._thread is not None

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Runs `work` in the thread; the future has its result."""
        future: Future[T] = Future()
        with self._ready:
            if self._is_closed:
                future.set_exception(SystemFault("The workspace is closed.", hint="Open it again."))
                return future
            self._tasks.append((future, work))
            self._wake()
        return future

    def mark_pending(self, tool: str) -> None:
        """Notes that something may have changed. Cheap: it is called for every write."""
        now = time.monotonic()
        with self._ready:
            if self._pending is not None:
                self._pending.tools.add(tool)
                self._pending.quiet_at = now + QUIET_SECONDS  # the thread reads it again when it wakes up
            elif not self._is_closed:
                self._pending = PendingSnapshot({tool}, now + LATEST_SECONDS, now + QUIET_SECONDS)
                self._wake()

    def take_pending(self) -> PendingSnapshot | None:
        """Removes and returns the pending snapshot, if there is one."""
        with self._ready:
            pending, self._pending = self._pending, None
            return pending

    def put_back(self, pending: PendingSnapshot, not_before: float) -> None:
        """Makes a pending snapshot due again, not before a given time."""
        with self._ready:
            tools = pending.tools if self._pending is None else pending.tools | self._pending.tools
            self._pending = PendingSnapshot(tools, not_before, not_before)

    def close(self, seconds: float) -> bool:
        """Runs the pending snapshot and ends. Returns False if the thread is still busy after `seconds`."""
        with self._ready:
            self._is_closed = True
            self._ready.notify()
        if self._thread is not None:
            self._thread.join(seconds)
        return self._thread is None or not self._thread.is_alive()

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="toolyard-snapshots", daemon=True)
            self._thread.start()
        self._ready.notify()

    def _run(self) -> None:
        while (task := self._next_task()) is not None:
            task()

    def _next_task(self) -> Task | None:
        """Waits for the next task; None at the end. Submitted tasks go before the pending snapshot."""
        with self._ready:
            while True:
                if self._tasks:
                    future, work = self._tasks.popleft()
                    return lambda: _run_task(future, work)
                now, pending = time.monotonic(), self._pending
                if pending is not None and (self._is_closed or max(pending.due_at, self._rest_until) <= now):
                    self._pending = None
                    return lambda: self._run_pending(pending)
                if self._is_closed:
                    return None
                self._ready.wait(None if pending is None else max(pending.due_at, self._rest_until) - now)

    def _run_pending(self, pending: PendingSnapshot) -> None:
        worked = self._take(pending)
        self._rest_until = time.monotonic() + worked * _REST


def _run_task(future: Future[T], work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - passed to the caller that waits for the future
        future.set_exception(error)
    else:
        future.set_result(result)
