"""Packs: files that records are appended to and never changed in.

    record = mark (4 bytes), length (8, little-endian), BLAKE3 digest (32), then that many bytes

The mark says whether it is an object or what is told about a snapshot, which is only read when the index is lost. The
index says which bytes of which pack count. What lies beyond them was left by somebody who was killed or found the
disk full; the next writer, who holds the store's lock, takes it away. Numbers of packs are never used twice, so an
old place never comes to mean another object.
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
"""As many as one writev takes."""
_NAME = re.compile(r"(\d{6,})\.pack")
_PRIVATE = 0o600


class PackOffset(NamedTuple):
    """Where an object's bytes lie, without the record's head."""

    pack: int
    at: int
    size: int


OffsetRow = tuple[int, int, int]
"""A Place as a plain tuple. The interpreter looks for no garbage in those, and with hundreds of thousands of others
that holds up every thread."""


def pack_name(pack: int) -> str:
    return f"{pack:06d}.pack"


def pack_path(folder: str, pack: int) -> str:
    return os.path.join(folder, pack_name(pack))


def open_pack(path: str) -> BinaryIO | None:
    """A pack to read from; None where there is no file. Raises SystemFault where it cannot be read."""
    try:
        return open(path, "rb")
    except (FileNotFoundError, IsADirectoryError):
        return None
    except OSError as error:
        raise SystemFault(
            f"The pack {path} cannot be read: {error.strerror}.",
            hint="Mend its permissions or its disk, then try again.",
        ) from error


def pack_numbers(folder: str) -> set[int]:
    return {int(match[1]) for name in os.listdir(folder) if (match := _NAME.fullmatch(name))}


def sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class PackWriter(Closeable):
    """Appends to one pack. Its owner holds the store's lock, and calls `sync` before the index names anything new."""

    def __init__(self, folder: str, pack: int, size: int) -> None:
        """`size` is what counts of the pack; 0 makes a new one. Anything beyond it is taken away."""
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
        """Write (digest, bytes) pairs, in this order. OSError leaves a partial end that `abandon` takes away."""
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
        os.fdatasync(self._fd)
        if not self._initial_size:
            sync_folder(self._folder)

    def abandon(self) -> None:
        """Take away what was appended."""
        with contextlib.suppress(OSError):  # the next writer does it, then
            if self._initial_size:
                os.ftruncate(self._fd, self._initial_size)
            else:
                os.unlink(self.path)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class PackReader(Closeable):
    """Reads objects by place and checks them. Safe to share between threads."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._fds: dict[int, int] = {}

    def read(self, offset: PackOffset, digest: bytes) -> bytes:
        """The object's bytes. FileNotFoundError when its pack was rewritten: ask the index again."""
        data = self.read_raw(offset)
        if len(data) != offset.size:
            raise DamagedObjectError(digest, f"{pack_name(offset.pack)} ends before it does")
        if digest_of(data) != digest:
            raise DamagedObjectError(digest, f"its bytes have changed in {pack_name(offset.pack)}")
        return data

    def read_raw(self, offset: PackOffset) -> bytes:
        fd = self._fds.get(offset.pack)
        if fd is None:
            fd = os.open(pack_path(self._folder, offset.pack), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            kept = self._fds.setdefault(offset.pack, fd)
            if kept != fd:  # another thread was quicker
                os.close(fd)
                fd = kept
        return os.pread(fd, offset.size, offset.at)

    def close(self) -> None:
        while self._fds:
            os.close(self._fds.popitem()[1])
