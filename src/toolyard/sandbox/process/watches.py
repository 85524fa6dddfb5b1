"""What the host watches while runs are active, because no limit of the kernel covers it: disk, shared memory, mounts.

Each watch owns only its handles or its thread: `DiskWatch` for one run, the other two for one sandbox.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Final

from toolyard.core.closeable import Closeable
from toolyard.core.limits import MIB
from toolyard.sandbox.limits.disk_usage import UsageCounter, unlinked_bytes
from toolyard.sandbox.spec import SandboxSpec

_SLICE_SECONDS: Final = 0.02
_CLOCK_SLACK_NS: Final = 20_000_000  # files are stamped by a coarser clock, which lags by up to one tick
_NOTICEABLE_BYTES: Final = 16 * MIB
# After a count below the limit, the next one is due when this fraction of the limit has gone as well: not immediately
# but soon enough that a file which escaped the count by being renamed does not grow far.
_MIN_RECOUNT_DIVISOR, _MAX_RECOUNT_DIVISOR = 16, 4
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MEMORY_REST_FACTOR = 20
"""Checking takes at most one part in this many of the time."""
_SHARED_PAGES_FIELD = 2  # the field of statm; it counts mapped files too
_MOST_PROCESSES = 2_000
_MOUNT_CHECK_SECONDS = 0.05
_MOUNT_REST_FACTOR = 15  # it rests this many times as long as a check took
_MOUNT_END_SECONDS = 5.0

Processes = Callable[[], Iterable[int]]
Inodes = tuple[tuple[str, int, int], ...]
"""Paths with their device and inode."""


class DiskWatch:
    """Ends a run that fills the disk: it may use `max_bytes` and `max_files`, and `reserve_bytes` must stay free.

    Ordinary users cannot set file system quotas, so the free space is watched. A check costs one statvfs for each
    file system. When more space has gone than a run may use, `UsageCounter` determines whether this run used it,
    because other programs write to the same disk. Below the reserve the cause does not matter: a run during which
    space went away is ended, because a full disk stops everything else on the machine.

    The limit is not exact. A run ends some ticks after it passed its limit. Space in unlinked files counts while one
    of the run's `processes` has them open, and otherwise only through the reserve.

    Use: `start`, then `check` every few tens of milliseconds from one thread, then `close`. It owns handles of the
    folders from `start` to `close`.
    """

    def __init__(
        self,
        folders: Sequence[str],
        *,
        max_bytes: int,
        max_files: int | None,
        reserve_bytes: int,
        processes: Processes = tuple,
    ) -> None:
        self._folders = tuple(folders)
        self._limits = (max_bytes, max_files, reserve_bytes)
        self._processes = processes
        self._handles: list[int] = []
        self._disks: list[_Disk] = []

    def start(self) -> None:
        """Starts watching: the run begins now. Raises OSError if a folder cannot be opened."""
        self.close()
        since = time.time_ns() - _CLOCK_SLACK_NS
        by_device: dict[int, list[int]] = {}
        try:
            for folder in self._folders:
                fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                self._handles.append(fd)
                by_device.setdefault(os.fstat(fd).st_dev, []).append(fd)
            self._disks = [
                _Disk(device, fds, since, self._limits, self._processes) for device, fds in by_device.items()
            ]
        except OSError:
            self.close()
            raise

    def check(self) -> str | None:
        """Returns why the run must be ended; None if it may continue."""
        for disk in self._disks:
            reason = disk.check()
            if reason is not None:
                return reason
        return None

    def close(self) -> None:
        for disk in self._disks:
            disk.close()
        self._disks = []
        while self._handles:
            os.close(self._handles.pop())


class _Disk:
    """One file system and the watched folders on it."""

    def __init__(
        self,
        device: int,
        folders: Sequence[int],
        since: int,
        limits: tuple[int, int | None, int],
        processes: Processes,
    ) -> None:
        self._device = device
        self._folders = tuple(folders)
        self._since = since
        self._max_bytes, self._max_files, self._reserve = limits
        self._noticeable = min(_NOTICEABLE_BYTES, self._max_bytes, self._reserve // 4)
        self._processes = processes
        now = os.fstatvfs(self._folders[0])
        self._free_bytes = now.f_bfree * now.f_frsize
        self._free_files = now.f_ffree
        self._recount_at_bytes = self._max_bytes
        self._recount_at_files = self._max_files
        self._counter: UsageCounter | None = None
        self._count_started_at = (0, 0)

    def check(self) -> str | None:
        now = os.fstatvfs(self._folders[0])
        free = now.f_bfree * now.f_frsize
        # Space that other programs free must not hide what the run uses: measure from the highest level seen.
        self._free_bytes = max(self._free_bytes, free)
        self._free_files = max(self._free_files, now.f_ffree)
        gone_bytes, gone_files = self._free_bytes - free, self._free_files - now.f_ffree
        if gone_bytes > self._noticeable and now.f_bavail * now.f_frsize < self._reserve:
            return f"the disk is almost full: less than {_size_text(self._reserve)} is free"
        if self._counter is None:
            files_due = self._recount_at_files is not None and gone_files > self._recount_at_files
            if gone_bytes <= self._recount_at_bytes and not files_due:
                return None
            self._counter = UsageCounter(self._folders, self._since)
            self._count_started_at = (gone_bytes, gone_files)
        return self._check_count(self._counter, gone_bytes, gone_files)

    def _check_count(self, counter: UsageCounter, gone_bytes: int, gone_files: int) -> str | None:
        counter.count_for(_SLICE_SECONDS)
        taken = counter.bytes
        if counter.is_done and taken <= self._max_bytes:
            taken += unlinked_bytes(self._processes(), self._device, _SLICE_SECONDS)
        if taken > self._max_bytes:
            return f"it wrote more than {_size_text(self._max_bytes)} to the disk"
        if self._max_files is not None and counter.files > self._max_files:
            return f"it made or changed more than {self._max_files:,} files"
        if not counter.is_done:
            return None
        self._counter = None
        if not counter.is_complete and self._is_over(gone_bytes, gone_files):
            return (
                f"{_size_text(gone_bytes)} and {gone_files:,} files' worth of the disk went during the run, "
                "and its files are too many, too deep or too closed to be counted"
            )
        at_bytes, at_files = self._count_started_at
        self._recount_at_bytes = at_bytes + _recount_step(self._max_bytes, taken)
        if self._max_files is not None:
            self._recount_at_files = at_files + _recount_step(self._max_files, counter.files)
        return None

    def _is_over(self, gone_bytes: int, gone_files: int) -> bool:
        return gone_bytes > self._max_bytes or (self._max_files is not None and gone_files > self._max_files)

    def close(self) -> None:
        if self._counter is not None:
            self._counter.close()
            self._counter = None


def _recount_step(most: int, taken: int) -> int:
    """Returns how much more space must go before another count is worthwhile."""
    return min(max(most - taken, most // _MIN_RECOUNT_DIVISOR), most // _MAX_RECOUNT_DIVISOR)


def _size_text(count: int) -> str:
    return f"{count / MIB:,.0f} MiB" if count >= MIB else f"{count:,} bytes"


class MemoryWatch:
    """Limits the shared memory of a sandbox's processes if no control group counts it.

    The limit of each process (RLIMIT_DATA) covers its private memory. Shared mappings (anonymous mappings, files in
    memory) are charged to no process, so a single one could fill the machine. Without a control group the host
    inspects the processes while a run is active, and kills one that has more shared memory than a process may have.

    This limit is coarse: it samples each process separately, and sees only mapped memory. `check` may be called from
    any thread, at any rate.
    """

    def __init__(self, first_process: int, max_bytes: int) -> None:
        self._first_process = first_process
        self._max_bytes = max_bytes
        self._next_check_at = 0.0
        self._has_killed = False

    def check(self) -> None:
        """Kills every process below the first one that exceeds the limit."""
        began = time.monotonic()
        if began < self._next_check_at:
            return
        for pid in _descendant_pids(self._first_process):
            if _exceeds_shared_memory(pid, self._max_bytes):
                self._kill(pid)
        now = time.monotonic()
        self._next_check_at = now + (now - began) * _MEMORY_REST_FACTOR

    def has_killed_process(self) -> bool:
        """Whether a process was killed since the last call."""
        ended, self._has_killed = self._has_killed, False
        return ended

    def _kill(self, pid: int) -> None:
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(pid)
            try:
                if _exceeds_shared_memory(pid, self._max_bytes):  # the pid still refers to the same process
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                    self._has_killed = True
            finally:
                os.close(handle)


def _descendant_pids(first: int) -> Iterator[int]:
    waiting = [first]
    for _ in range(_MOST_PROCESSES):
        if not waiting:
            return
        for child in _child_pids(waiting.pop()):
            yield child
            waiting.append(child)


def _child_pids(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):  # it has just ended
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file:
                found += [int(child) for child in file.read().split()]
    return found


def _exceeds_shared_memory(pid: int, max_bytes: int) -> bool:
    try:
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:
            if int(file.read().split()[_SHARED_PAGES_FIELD]) * _PAGE_BYTES <= max_bytes:
                return False
        with open(f"/proc/{pid}/status", "rb", buffering=0) as file:
            row = next((row for row in file.read().splitlines() if row.startswith(b"RssShmem:")), b"RssShmem: 0 kB")
    except (OSError, IndexError):
        return False
    return int(row.split()[1]) * 1024 > max_bytes


class MountWatch(Closeable):
    """Calls `on_loss` once if `is_intact` returns False while a run is active.

    The kernel drops a mount when its name is replaced. Editors and git replace files by renaming a new one over them;
    a file that was hidden or read-only inside then becomes accessible. So the files are checked while runs are
    active, and a sandbox that lost a mount is ended.

    It owns one thread, which starts with the first run and ends with `close()`, or after it reported a lost mount.
    The thread uses only a small share of a processor, however many mounts there are.
    """

    def __init__(self, is_intact: Callable[[], bool], on_loss: Callable[[], None]) -> None:
        self._is_intact, self._on_loss = is_intact, on_loss
        self._runs = 0
        self._lock = threading.Lock()
        self._run_active = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def while_running(self) -> Generator[None]:
        """Keeps the checks active while the block runs."""
        with self._lock:
            self._runs += 1
            self._run_active.set()
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._watch, name="toolyard-covers", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._runs -= 1

    def close(self) -> None:
        with self._lock:
            self._closed.set()
            self._run_active.set()
        if self._thread is not None:
            self._thread.join(_MOUNT_END_SECONDS)

    def _watch(self) -> None:
        rest = _MOUNT_CHECK_SECONDS
        while not self._closed.wait(rest):
            began = time.monotonic()
            if not self._is_intact():
                self._on_loss()
                return
            rest = max(_MOUNT_CHECK_SECONDS, _MOUNT_REST_FACTOR * (time.monotonic() - began))
            with self._lock:
                if not self._runs and not self._closed.is_set():
                    self._run_active.clear()
            self._run_active.wait()


def mounted_inodes(spec: SandboxSpec) -> Inodes:
    """Returns each protected path with its current device and inode. Called often: one system call per path.

    A link on the way to the same file does no harm: a mount covers the file, not its path.
    """
    return tuple(_lstat_inode(path) for path in (*spec.hidden, *(mount.source for mount in spec.mounts)))


def special_inodes(spec: SandboxSpec) -> Inodes:
    """Returns the same for sockets and pipes, which services replace when they restart."""
    return tuple(_lstat_inode(path) for path in spec.special)


def _lstat_inode(path: str) -> tuple[str, int, int]:
    try:
        found = os.lstat(path)
    except OSError:
        return path, 0, 0
    return path, found.st_dev, found.st_ino
