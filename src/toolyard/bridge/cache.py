"""Files of clients, kept for a while: bounded, apart from each other, and gone once they are known to have changed.

A FileCache keeps its files in memory, or with `in_sqlite` in a file that outlives the process and that several
processes may share. Both follow the same rules, which are all here; `cache_store.py` says what a store adds.

- What is kept never takes more than `max_bytes` of content, nor more than `max_entries` files, not for a moment.
  Where room is needed, files that have expired go first, and then those that nobody has got or put for longest,
  whosever they are. What cannot fit at all is refused, and nothing else goes for it.
- A file is expired once it is older than `ttl_seconds`, and changed once its client names a newer mtime.
- A client sees only what was put for that client.
- A method has done all of what it says when it returns, and nothing of it when it raises.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal, TypeAlias

from toolyard.bridge.cache_store import DAMAGED_HINT, CachedFile, CacheKey, CacheStore
from toolyard.bridge.errors import CacheRefusedError
from toolyard.bridge.memory_store import MemoryStore
from toolyard.bridge.sqlite_store import SqliteStore
from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault, ValidationError

__all__ = ["MAX_BYTES", "MAX_ENTRIES", "TTL_SECONDS", "CacheStatistics", "CachedFile", "FileCache", "NewFile"]

MAX_BYTES: Final = 64 * 2**20
MAX_ENTRIES: Final = 100_000
TTL_SECONDS: Final = 3_600.0

_MAX_SECONDS = 1e15
"""Beyond this, either way from 1970, nothing is a time."""

_Event: TypeAlias = Literal["hits", "misses", "evictions", "expirations", "invalidations"]
_Events: TypeAlias = list[_Event]


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to be put."""

    path: str
    content: bytes
    mtime: float | None = None
    encoding: str = "utf-8"
    is_binary: bool = False


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """What is kept now, whosever it is, and what has happened since this cache was opened."""

    entries: int
    bytes: int
    hits: int
    misses: int
    evictions: int
    """Files that went to make room."""
    expirations: int
    """Files found too old."""
    invalidations: int
    """Files found to have changed."""

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


class FileCache(Closeable):
    """For many threads at once. Every method may raise SystemFault, and does once the cache is closed."""

    def __init__(
        self,
        max_bytes: int = MAX_BYTES,
        *,
        max_entries: int = MAX_ENTRIES,
        ttl_seconds: float | None = TTL_SECONDS,
        clock: Callable[[], float] = time.time,
        store: CacheStore | None = None,
    ) -> None:
        """`ttl_seconds`: None, and nothing expires. `store` is the cache's own from now on, and closed with it.

        Raises ValueError for limits that make no sense.
        """
        self._max_bytes = max_bytes
        self._max_entries = max_entries
        self._ttl = ttl_seconds
        self._clock = clock
        self._store: CacheStore = MemoryStore() if store is None else store
        self._lock = threading.RLock()
        self._is_closed = False
        self._counts: dict[_Event, int] = dict.fromkeys(
            ("hits", "misses", "evictions", "expirations", "invalidations"), 0
        )
        try:
            if max_bytes < 0 or max_entries < 1 or (ttl_seconds is not None and not ttl_seconds > 0):
                raise ValueError("a cache needs room for an entry, max_bytes of 0 or more, and a ttl_seconds above 0")
            with self._transaction() as events:  # it may have been kept by larger limits
                self._make_room(0, 0, self._clock(), events)
        except BaseException:
            self._store.close()
            raise

    @classmethod
    def in_sqlite(
        cls,
        path: str | os.PathLike[str],
        max_bytes: int = MAX_BYTES,
        *,
        max_entries: int = MAX_ENTRIES,
        ttl_seconds: float | None = TTL_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> FileCache:
        """One in the file at `path`, made where there is none, for its owner alone.

        Who shares the file shares the files and their order. Each holds it to the limits of its own, and counts what
        happens to it alone. Raises SystemFault.
        """
        store = SqliteStore(path)
        return cls(max_bytes, max_entries=max_entries, ttl_seconds=ttl_seconds, clock=clock, store=store)

    def close(self) -> None:
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._store.close()

    @property
    def max_bytes(self) -> int:
        return self._max_bytes

    @property
    def statistics(self) -> CacheStatistics:
        """An expired file counts as kept until somebody asks for it, or needs its room."""
        with self._lock:
            self._require_open()
            with self._store.read_transaction():
                total = self._store.total()
            return CacheStatistics(total.entries, total.bytes, **self._counts)

    def put(
        self,
        path: str,
        content: bytes,
        *,
        mtime: float | None = None,
        encoding: str = "utf-8",
        is_binary: bool = False,
        client: str = "",
    ) -> CachedFile:
        """Keep a file, in place of the one that was there. Raises CacheRefusedError, and that one stays."""
        (kept,) = self.put_all((NewFile(path, content, mtime, encoding, is_binary),), client=client)
        return kept

    def put_all(self, files: Sequence[NewFile], *, client: str = "") -> tuple[CachedFile, ...]:
        """Keep several files in one step: whoever asks meanwhile finds all of them or none.

        Raises CacheRefusedError where there is no room for all of them together, and for a path that is there twice.
        """
        size = self._acceptable_size(files)
        with self._transaction() as events:
            now = self._clock()
            kept = tuple(_new_cached_file(file, now) for file in files)
            for file in kept:
                self._store.drop(CacheKey(client, file.path))
            self._make_room(len(kept), size, now, events)
            for file in kept:
                self._store.add(CacheKey(client, file.path), file)
        return kept

    def require_acceptable(self, files: Sequence[NewFile]) -> None:
        """Raises as `put_all` would, whatever else is in the cache."""
        self._acceptable_size(files)

    @property
    def may_block(self) -> bool:
        """Whether its methods wait for a disk and for other processes: a loop of events had better not call them."""
        return self._store.may_block

    def get(self, path: str, *, mtime: float | None = None, client: str = "") -> CachedFile | None:
        """A file, unless it has expired, or has changed since: `mtime` is what its client says of it now."""
        key = CacheKey(client, path)
        if mtime is not None:
            _require_time(mtime)
        with self._transaction() as events:
            file = self._find_valid(key, events)
            if file is not None and mtime is not None and self._drop_if_changed(key, file, mtime, events):
                file = None
            if file is not None:
                self._store.touch(key)
            events.append("misses" if file is None else "hits")
        return file

    def peek(self, path: str, *, client: str = "") -> CachedFile | None:
        """What `get` would find. Nothing is counted, and what nobody uses stays the first to go."""
        with self._lock:
            self._require_open()
            with self._store.read_transaction():
                file = self._store.find(CacheKey(client, path))
            return None if file is None or self._is_expired(file.stored, self._clock()) else file

    def drop_if_older(self, path: str, mtime: float, *, client: str = "") -> bool:
        """A client's file is of this time: drop what is older. Whether something was."""
        key = CacheKey(client, path)
        _require_time(mtime)
        with self._transaction() as events:
            file = self._find_valid(key, events)
            return file is not None and self._drop_if_changed(key, file, mtime, events)

    def invalidate(self, path: str, *, client: str = "") -> None:
        """Drop a file that has changed since."""
        with self._transaction() as events:
            if self._store.drop(CacheKey(client, path)):
                events.append("invalidations")

    def remove(self, path: str, *, client: str = "") -> bool:
        """Whether there was one. Nothing of it stays."""
        key = CacheKey(client, path)
        with self._lock:
            with self._transaction() as events:
                was_there = self._find_valid(key, events) is not None and self._store.drop(key)
            if was_there:
                self._store.purge()
        return was_there

    def clear(self, *, client: str | None = None) -> None:
        """Drop all files of one client; None: everybody's. Nothing of them stays, and nothing is counted."""
        with self._lock:
            with self._transaction():
                self._store.drop_all(client)
            self._store.purge()

    @contextlib.contextmanager
    def _transaction(self) -> Generator[_Events]:
        """One step; what is said to have happened in it is counted once it is done."""
        events: _Events = []
        with self._lock:
            self._require_open()
            with self._store.write_transaction():
                yield events
            for event in events:
                self._counts[event] += 1

    def _require_open(self) -> None:
        if self._is_closed:
            raise SystemFault("The cache is closed.", hint="Its owner is about to end; open another one.")

    def _acceptable_size(self, files: Sequence[NewFile]) -> int:
        """How many bytes they have. Raises CacheRefusedError for what would not fit if there were nothing else."""
        paths: set[str] = set()
        size = 0
        for file in files:
            if file.mtime is not None:
                _require_time(file.mtime)
            if file.path in paths:
                raise _refusal(file, "is in one batch more than once", "Hand over each file once.")
            if len(file.content) > self._max_bytes:
                why = f"has {len(file.content):,} bytes, and the cache holds {self._max_bytes:,} in all"
                raise CacheRefusedError(file.path, why)
            paths.add(file.path)
            size += len(file.content)
        for count, most, unit in ((size, self._max_bytes, "bytes"), (len(files), self._max_entries, "files")):
            if count > most:
                why = f"and those with it are {count:,} {unit}, and the cache holds {most:,} in all"
                raise _refusal(files[0], why, "Hand over fewer files at once.")
        return size

    def _make_room(self, entries: int, size: int, now: float, events: _Events) -> None:
        """For so many files of `size` bytes together, which would fit if there were nothing else."""
        total = self._store.total()
        while total.entries + entries > self._max_entries or total.bytes + size > self._max_bytes:
            oldest = self._store.oldest()
            if oldest is not None and self._is_expired(oldest, now):
                self._store.drop_oldest()
                events.append("expirations")
            else:
                self._store.drop_least_used()
                events.append("evictions")
            before, total = total, self._store.total()
            if before == total:
                raise SystemFault("The cache is damaged: nothing goes out of it.", hint=DAMAGED_HINT, retryable=False)

    def _find_valid(self, key: CacheKey, events: _Events) -> CachedFile | None:
        file = self._store.find(key)
        if file is None:
            self._store.drop(key)  # it may be there, and have failed its check
        elif self._is_expired(file.stored, self._clock()):
            self._store.drop(key)
            events.append("expirations")
            file = None
        return file

    def _drop_if_changed(self, key: CacheKey, file: CachedFile, mtime: float, events: _Events) -> bool:
        # One whose time nobody said was read when it was stored, or before.
        if mtime <= (file.stored if file.mtime is None else file.mtime):
            return False
        self._store.drop(key)
        events.append("invalidations")
        return True

    def _is_expired(self, stored: float, now: float) -> bool:
        # Either way: one from the future was stored by a clock that was wrong, and would be kept for ever.
        return self._ttl is not None and abs(now - stored) > self._ttl


def _new_cached_file(file: NewFile, now: float) -> CachedFile:
    return CachedFile(file.path, file.content, len(file.content), file.mtime, file.encoding, file.is_binary, now)


def _refusal(file: NewFile, why: str, hint: str) -> CacheRefusedError:
    error = CacheRefusedError(file.path, why)
    error.hint = hint
    return error


def _require_time(mtime: float) -> None:
    if not abs(mtime) < _MAX_SECONDS:  # so that what is not a number is refused as well
        raise ValidationError.of("mtime", "is not a time", hint="It is seconds since 1970, as a number.")
