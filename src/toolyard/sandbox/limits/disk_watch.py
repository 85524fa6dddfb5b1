"""Ends a run that fills the disk.

Ordinary users cannot set file system quotas, so the free space is watched while a run is active. A check costs one
statvfs for each file system. When more space has gone than a run may use, `UsageCounter` determines whether this run
used it, because other programs write to the same disk. Below the reserve the cause does not matter: a run during
which space went away is ended, because a full disk stops everything else on the machine.

The limit is not exact. A run ends some ticks after it passed its limit. Space in unlinked files counts while one of
the run's processes has them open, and otherwise only through the reserve.

A `DiskWatch` serves one run: `start`, then `check` every few tens of milliseconds from one thread, then `close`. It
owns handles of the folders from `start` to `close`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from toolyard.core.limits import MIB
from toolyard.sandbox.limits.disk_usage import UsageCounter, unlinked_bytes

_SLICE_SECONDS: Final = 0.02
_CLOCK_SLACK_NS: Final = 20_000_000  # files are stamped by a coarser clock, which lags by up to one tick
_NOTICEABLE_BYTES: Final = 16 * MIB
# After a count below the limit, the next one is due when this fraction of the limit has gone as well: not immediately
# but soon enough that a file which escaped the count by being renamed does not grow far.
_MIN_RECOUNT_DIVISOR, _MAX_RECOUNT_DIVISOR = 16, 4

Processes = Callable[[], Iterable[int]]


class DiskWatch:
    """Watches folders during one run, which may use `max_bytes` and `max_files`; `reserve_bytes` must stay free.

    `processes` returns the pids of the run, to find files that are open but unlinked.
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
