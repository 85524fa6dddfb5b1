"""One file that people and programs share: read whole, changed under the folder's lock, replaced in one step.

Agents and people write these files too. What cannot be understood is never overwritten: it stays where it is, a copy
of it is kept beside it, and the error says what to do. `set_aside` is how somebody decides to begin anew.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from toolyard.core.errors import ToolError, ValidationError
from toolyard.core.limits import MIB
from toolyard.files import file_io
from toolyard.files.roots import Root
from toolyard.files.safe_paths import ensure_folder, open_folder, open_target, read_file, rewrite_file, size_of
from toolyard_runtime.json_list import UnreadableFile, decode_text, parse_list, write_list

__all__ = ["FILE_BYTES", "LockedDocument", "UnreadableFile", "decode_text", "parse_list", "write_list"]

FILE_BYTES = 8 * MIB
"""The largest of them. Together with its form in memory it has to be read in a moment."""
_ASIDE = ".unreadable-"
_MOST_ASIDE = 20
_DIGEST_BYTES = 5

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LockedDocument(Generic[T]):
    """`parse` raises Unreadable; `write` gives the bytes for a value, from the former bytes where that matters."""

    root: Root
    folder: str
    name: str
    parse: Callable[[bytes], T]
    write: Callable[[T, bytes], bytes]
    max_bytes: int = FILE_BYTES

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}"

    def read(self) -> T:
        data = self._read_bytes()
        try:
            return self.parse(data or b"")
        except UnreadableFile as error:
            raise self._unreadable_error(str(error), "") from None

    def change(self, update: Callable[[T], T]) -> T:
        """What `update` makes of the value becomes the file. When `update` raises, nothing is changed."""
        ensure_folder(self.root, self.folder)
        self._check_size()
        made: list[T] = []
        unread: list[bytes] = []

        def rewrite(before: bytes | None) -> bytes:
            data = before or b""
            try:
                value = self.parse(data)
            except UnreadableFile:
                unread.append(data)
                raise
            made.append(update(value))
            after = self.write(made[-1], data)
            if len(after) > self.max_bytes:
                raise ValidationError.of(
                    self.name, f"would be larger than {self.max_bytes:,} bytes", hint="Forget what is not needed."
                )
            return after

        try:
            rewrite_file(self.root, self.path, rewrite, self.max_bytes)
        except UnreadableFile as error:
            raise self._unreadable_error(str(error), self._keep_copy(unread[-1])) from None
        return made[-1]

    def set_aside(self) -> str | None:
        """Move a file that cannot be read out of the way. Its new name, None when it can be read."""
        data = self._read_bytes()
        try:
            self.parse(data or b"")
        except UnreadableFile:
            kept = self._aside_name(data or b"")
        else:
            return None
        with open_target(self.root, self.path) as source, open_target(self.root, f"{self.folder}/{kept}") as there:
            if not there.exists:
                file_io.move(source, there)
                return kept
        # A copy of it is there already: the file itself may go, if it still is what was copied.
        folder = open_folder(self.root, self.folder)
        if folder is not None:
            try:
                if read_file(self.root, self.path, self.max_bytes) == data:
                    os.unlink(self.name, dir_fd=folder)
            finally:
                os.close(folder)
        return kept

    def _read_bytes(self) -> bytes | None:
        self._check_size()
        return read_file(self.root, self.path, self.max_bytes)

    def _check_size(self) -> None:
        """In words of its own: who reads these files cannot ask for a part of one."""
        size = size_of(self.root, self.path)
        if size > self.max_bytes:
            raise ToolError(
                f"{self.path} has {size:,} bytes, and at most {self.max_bytes:,} are read. It was left as it is.",
                hint="Move what is not needed into another file.",
            )

    def _keep_copy(self, data: bytes) -> str:
        name = self._aside_name(data)
        folder = open_folder(self.root, self.folder)
        if folder is None:
            return ""
        try:
            kept = {entry for entry in os.listdir(folder) if entry.startswith(f"{self.name}{_ASIDE}")}
        finally:
            os.close(folder)
        if name not in kept:
            if len(kept) >= _MOST_ASIDE:
                return ""
            rewrite_file(self.root, f"{self.folder}/{name}", lambda _: data, self.max_bytes)
        return name

    def _aside_name(self, data: bytes) -> str:
        return f"{self.name}{_ASIDE}{hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()}"

    def _unreadable_error(self, reason: str, copy_name: str) -> ToolError:
        copy = f" A copy of it is {self.folder}/{copy_name}." if copy_name else ""
        return ToolError(
            f"{self.path} {reason}. It was left as it is.{copy}",
            hint="Correct the file, or move it away to begin anew.",
        )
