"""FileCache: a bounded cache of clients' files, separated by client and invalidated by change.

A FileCache stores its files in memory, or with `in_sqlite` in a file that outlives the process and that several
processes may share. Both follow the same rules, which are implemented here; `cache_store.py` defines the store.

- The cache never exceeds `max_bytes` of content or `max_entries` files, not even temporarily. To make room, expired
  files are dropped first, then the least recently used ones of any client. A file that cannot fit at all is refused,
  and nothing is dropped for it.
- A file expires when it is older than `ttl_seconds`, and has changed when its client reports a newer mtime.
- A client sees only its own files.
- A method has done everything when it returns, and nothing when it raises.
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
"""Times further than this from 1970 are invalid."""

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
    """The current content of all clients, and event counts since this cache was opened."""

    entries: int
    bytes: int
    hits: int
    misses: int
    evictions: int
    """Files dropped to make room."""
    expirations: int
    """Files found too old."""
    invalidations: int
    """Files found to have changed."""

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


class FileCache(Closeable):
    """A thread-safe cache of clients' files.

    Args:
        max_bytes: The size limit of all files together.
        max_entries: The limit of their number.
        ttl_seconds: When an entry expires; None for never.
        clock: Returns the time in seconds.
        store: Where the entries are kept. Default: in memory. The cache closes it.

    Raises:
        ValueError: A limit is invalid.
        SystemFault: From every method, if the store fails or the cache is closed.

    Example:
        ```python
        cache = FileCache(max_bytes=50_000_000, ttl_seconds=3600)
        host = BridgeHost(cache=cache)
        ```

    """

    def __init__(
        self,
        max_bytes: int = MAX_BYTES,
        *,
        max_entries: int = MAX_ENTRIES,
        ttl_seconds: float | None = TTL_SECONDS,
        clock: Callable[[], float] = time.time,
        store: CacheStore | None = None,
    ) -> None:
        """Takes over the entries of the store, as far as they fit."""
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
            with self._transaction() as events:  # it may have been filled with larger limits
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
        """Opens a cache in the file at `path`, which is created with access for its owner only.

        Processes that share the file share its content and order. Each enforces its own limits and counts its own
        events. Raises SystemFault.
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
        """The current statistics. An expired file is counted until it is requested or its space is needed."""
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
        """Stores a file and replaces an existing one. If it raises CacheRefusedError, the existing one stays."""
        (kept,) = self.put_all((NewFile(path, content, mtime, encoding, is_binary),), client=client)
        return kept

    def put_all(self, files: Sequence[NewFile], *, client: str = "") -> tuple[CachedFile, ...]:
        """Stores several files atomically: concurrent readers see all of them or none.

        Raises CacheRefusedError if they do not fit together, or if a path appears twice.
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
        """Raises the errors that `put_all` would raise for these files in an empty cache."""
        self._acceptable_size(files)

    @property
    def may_block(self) -> bool:
        """Whether its methods may wait for a disk or other processes, and should not be called in an event loop."""
        return self._store.may_block

    def get(self, path: str, *, mtime: float | None = None, client: str = "") -> CachedFile | None:
        """Returns a file unless it has expired or changed; `mtime` is the time that its client reports now."""
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
        """Returns what `get` would return, without counting a hit or marking the file as used."""
        with self._lock:
            self._require_open()
            with self._store.read_transaction():
                file = self._store.find(CacheKey(client, path))
            return None if file is None or self._is_expired(file.stored, self._clock()) else file

    def drop_if_older(self, path: str, mtime: float, *, client: str = "") -> bool:
        """Drops the file if it is older than `mtime`, which its client reports. Returns whether it was dropped."""
        key = CacheKey(client, path)
        _require_time(mtime)
        with self._transaction() as events:
            file = self._find_valid(key, events)
            return file is not None and self._drop_if_changed(key, file, mtime, events)

    def invalidate(self, path: str, *, client: str = "") -> None:
        """Drops a file that has changed."""
        with self._transaction() as events:
            if self._store.drop(CacheKey(client, path)):
                events.append("invalidations")

    def remove(self, path: str, *, client: str = "") -> bool:
        """Removes a file and its stored content, and returns whether it existed."""
        key = CacheKey(client, path)
        with self._lock:
            with self._transaction() as events:
                was_there = self._find_valid(key, events) is not None and self._store.drop(key)
            if was_there:
                self._store.purge()
        return was_there

    def clear(self, *, client: str | None = None) -> None:
        """Removes all files of one client, or of all clients if None, with their content. Counts no events."""
        with self._lock:
            with self._transaction():
                self._store.drop_all(client)
            self._store.purge()

    @contextlib.contextmanager
    def _transaction(self) -> Generator[_Events]:
        """Runs one atomic change; its events are counted when it succeeds."""
        events: _Events = []
        with self._lock:
            self._require_open()
            with self._store.write_transaction():
                yield events
            for event in events:
                self._counts[event] += 1

    def _require_open(self) -> None:
        if self._is_closed:
            raise SystemFault("The cache is closed.", hint="Its owner is shutting down; open another cache.")

    def _acceptable_size(self, files: Sequence[NewFile]) -> int:
        """Returns the total size of the files. Raises CacheRefusedError if they would not fit in an empty cache."""
        paths: set[str] = set()
        size = 0
        for file in files:
            if file.mtime is not None:
                _require_time(file.mtime)
            if file.path in paths:
                raise _refusal(file, "appears more than once in the batch", "Push each file once.")
            if len(file.content) > self._max_bytes:
                why = f"has {len(file.content):,} bytes, but the cache holds at most {self._max_bytes:,}"
                raise CacheRefusedError(file.path, why)
            paths.add(file.path)
            size += len(file.content)
        for count, most, unit in ((size, self._max_bytes, "bytes"), (len(files), self._max_entries, "files")):
            if count > most:
                why = f"and the files with it are {count:,} {unit}, but the cache holds at most {most:,}"
                raise _refusal(files[0], why, "Push fewer files at once.")
        return size

    def _make_room(self, entries: int, size: int, now: float, events: _Events) -> None:
        """Drops files until `entries` more files of `size` bytes in total fit; they must fit in an empty cache."""
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
                raise SystemFault(
                    "The cache is damaged: entries cannot be dropped.", hint=DAMAGED_HINT, retryable=False
                )

    def _find_valid(self, key: CacheKey, events: _Events) -> CachedFile | None:
        file = self._store.find(key)
        if file is None:
            self._store.drop(key)  # it may exist and have failed its integrity check
        elif self._is_expired(file.stored, self._clock()):
            self._store.drop(key)
            events.append("expirations")
            file = None
        return file

    def _drop_if_changed(self, key: CacheKey, file: CachedFile, mtime: float, events: _Events) -> bool:
        # A file without an mtime was read at the time it was stored, or earlier.
        if mtime <= (file.stored if file.mtime is None else file.mtime):
            return False
        self._store.drop(key)
        events.append("invalidations")
        return True

    def _is_expired(self, stored: float, now: float) -> bool:
        # abs(): a file from the future was stored with a wrong clock and would never expire.
        return self._ttl is not None and abs(now - stored) > self._ttl


def _new_cached_file(file: NewFile, now: float) -> CachedFile:
    return CachedFile(file.path, file.content, len(file.content), file.mtime, file.encoding, file.is_binary, now)


def _refusal(file: NewFile, why: str, hint: str) -> CacheRefusedError:
    error = CacheRefusedError(file.path, why)
    error.hint = hint
    return error


def _require_time(mtime: float) -> None:
    if not abs(mtime) < _MAX_SECONDS:  # written so that NaN is refused as well
        raise ValidationError.of("mtime", "is not a time", hint="It is seconds since 1970, as a number.")
