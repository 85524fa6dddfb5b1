"""Packs: append-only files of records.

    record = mark (4 bytes), length (8, little-endian), BLAKE3 digest (32), then that many bytes

The mark says whether it is an object or the record of a snapshot, which is only read when the index is lost. The
index says how many bytes of each pack are valid. Bytes beyond that were left by a killed writer or a full disk; the
next writer, who holds the store's lock, removes them. Pack numbers are never reused, so an old offset never refers to
another object.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
from collections.abc import Iterable, Sequence
from typing import BinaryIO, NamedTuple

from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault
from toolyard.core.limits import MIB
from toolyard.snapshots.store.models import DamagedObjectError
from toolyard.snapshots.store.objects import DIGEST_BYTES, digest_of

PACK_BYTES = 256 * MIB
"""A pack that has grown to this size is followed by another."""
OBJECT, SNAPSHOT = b"TYs1", b"TYr1"
"""The marks of records."""
HEAD = struct.Struct(f"<4sQ{DIGEST_BYTES}s")
HEAD_BYTES = HEAD.size
_BUFFERS = 1_024
"""The most buffers that one writev accepts."""
_NAME = re.compile(r"(\d{6,})\.pack")
_PRIVATE = 0o600


class PackOffset(NamedTuple):
    """Where an object's bytes lie, without the record's header."""

    pack: int
    at: int
    size: int


OffsetRow = tuple[int, int, int]
"""A PackOffset as a plain tuple: the garbage collector does not track those, and tracking hundreds of thousands of
others would stall every thread.
"""


def pack_name(pack: int) -> str:
    return f"{pack:06d}.pack"


def pack_path(folder: str, pack: int) -> str:
    return os.path.join(folder, pack_name(pack))


def open_pack(path: str) -> BinaryIO | None:
    """Opens a pack for reading; None if there is no file. Raises SystemFault if it cannot be read."""
    try:
        return open(path, "rb")
    except (FileNotFoundError, IsADirectoryError):
        return None
    except OSError as error:
        raise SystemFault(
            f"The pack {path} cannot be read: {error.strerror}.",
            hint="Fix its permissions or its disk, then try again.",
        ) from error


def pack_numbers(folder: str) -> set[int]:
    """Returns the numbers of the packs in a folder."""
    return {int(match[1]) for name in os.listdir(folder) if (match := _NAME.fullmatch(name))}


def sync_folder(folder: str) -> None:
    """Syncs a folder to disk, so that new names in it survive a power failure."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class PackWriter(Closeable):
    """Appends to one pack. Its owner holds the store's lock, and calls `sync` before the index names anything new."""

    def __init__(self, folder: str, pack: int, size: int) -> None:
        """`size` is the valid size of the pack; 0 creates a new one. Bytes beyond it are removed."""
        self.pack = pack
        self._folder = folder
        self.path = pack_path(folder, pack)
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _PRIVATE)
        self._initial_size = size
        self.size = size
        try:
            if os.fstat(self._fd).st_size != size:
                os.ftruncate(self._fd, size)
            os.lseek(self._fd, size, os.SEEK_SET)
        except BaseException:
            self.close()
            raise

    def append(self, objects: Iterable[tuple[bytes, bytes]], mark: bytes = OBJECT) -> list[OffsetRow]:
        """Writes (digest, bytes) pairs in this order. OSError leaves a partial record that `abandon` removes."""
        buffers: list[bytes] = []
        places: list[OffsetRow] = []
        at = self.size
        for digest, data in objects:
            at += HEAD_BYTES
            places.append((self.pack, at, len(data)))
            at += len(data)
            buffers.append(HEAD.pack(mark, len(data), digest))
            buffers.append(data)
        for start in range(0, len(buffers), _BUFFERS):
            self._write(buffers[start : start + _BUFFERS])
        self.size = at
        return places

    def _write(self, buffers: Sequence[bytes]) -> None:
        wanted = sum(map(len, buffers))
        done = os.writev(self._fd, buffers)
        if done == wanted:
            return
        rest = memoryview(b"".join(buffers))[done:]
        while rest:
            rest = rest[os.write(self._fd, rest) :]

    def sync(self) -> None:
        """Syncs the appended bytes to disk."""
        os.fdatasync(self._fd)
        if not self._initial_size:
            sync_folder(self._folder)

    def abandon(self) -> None:
        """Removes what was appended."""
        with contextlib.suppress(OSError):  # then the next writer does it
            if self._initial_size:
                os.ftruncate(self._fd, self._initial_size)
            else:
                os.unlink(self.path)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class PackReader(Closeable):
    """Reads objects by offset and verifies them. Safe to share between threads."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._fds: dict[int, int] = {}

    def read(self, offset: PackOffset, digest: bytes) -> bytes:
        """Returns the object's bytes. FileNotFoundError if its pack was rewritten: ask the index again."""
        data = self.read_raw(offset)
        if len(data) != offset.size:
            raise DamagedObjectError(digest, f"{pack_name(offset.pack)} ends before the object does")
        if digest_of(data) != digest:
            raise DamagedObjectError(digest, f"its bytes have changed in {pack_name(offset.pack)}")
        return data

    def read_raw(self, offset: PackOffset) -> bytes:
        """Returns the bytes at an offset, unverified."""
        fd = self._fds.get(offset.pack)
        if fd is None:
            fd = os.open(pack_path(self._folder, offset.pack), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            shared_fd = self._fds.setdefault(offset.pack, fd)
            if shared_fd != fd:  # another thread opened it first
                os.close(fd)
                fd = shared_fd
        return os.pread(fd, offset.size, offset.at)

    def close(self) -> None:
        while self._fds:
            os.close(self._fds.popitem()[1])
