"""A file that people and programs share: read whole, changed under the folder's lock, replaced in one step.

Agents and people write these files too. A file that cannot be parsed is never overwritten: it stays unchanged, a copy
is saved beside it, and the error says what to do. `set_aside` moves it away to start over.
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
"""The size limit. Such a file has to be parsed in a moment."""
_ASIDE = ".unreadable-"
_MOST_ASIDE = 20
_DIGEST_BYTES = 5

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LockedDocument(Generic[T]):
    """A parsed file. `parse` raises Unreadable; `write` encodes a value, given the former bytes if they matter."""

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
        """Returns the parsed value. Raises ToolError if the file cannot be parsed."""
        data = self._read_bytes()
        try:
            return self.parse(data or b"")
        except UnreadableFile as error:
            raise self._unreadable_error(str(error), "") from None

    def change(self, update: Callable[[T], T]) -> T:
        """Replaces the value by what `update` returns for it. If `update` raises, nothing is changed."""
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
                    self.name,
                    f"would be larger than {self.max_bytes:,} bytes",
                    hint="Remove entries that are not needed.",
                )
            return after

        try:
            rewrite_file(self.root, self.path, rewrite, self.max_bytes)
        except UnreadableFile as error:
            raise self._unreadable_error(str(error), self._keep_copy(unread[-1])) from None
        return made[-1]

    def set_aside(self) -> str | None:
        """Renames a file that cannot be parsed. Returns its new name, None if the file can be parsed."""
        data = self._read_bytes()
        try:
            self.parse(data or b"")
        except UnreadableFile:
            new_name = self._aside_name(data or b"")
        else:
            return None
        with (
            open_target(self.root, self.path) as source,
            open_target(self.root, f"{self.folder}/{new_name}") as there,
        ):
            if not there.exists:
                file_io.move(source, there)
                return new_name
        # A copy exists already: the file itself can be deleted, if it still equals the copy.
        folder = open_folder(self.root, self.folder)
        if folder is not None:
            try:
                if read_file(self.root, self.path, self.max_bytes) == data:
                    os.unlink(self.name, dir_fd=folder)
            finally:
                os.close(folder)
        return new_name

    def _read_bytes(self) -> bytes | None:
        self._check_size()
        return read_file(self.root, self.path, self.max_bytes)

    def _check_size(self) -> None:
        """Raises an error of its own for large files: callers cannot read a part of such a file."""
        size = size_of(self.root, self.path)
        if size > self.max_bytes:
            raise ToolError(
                f"{self.path} has {size:,} bytes, and at most {self.max_bytes:,} are read. It was left unchanged.",
                hint="Move what is not needed into another file.",
            )

    def _keep_copy(self, data: bytes) -> str:
        name = self._aside_name(data)
        folder = open_folder(self.root, self.folder)
        if folder is None:
            return ""
        try:
            copies = {entry for entry in os.listdir(folder) if entry.startswith(f"{self.name}{_ASIDE}")}
        finally:
            os.close(folder)
        if name not in copies:
            if len(copies) >= _MOST_ASIDE:
                return ""
            rewrite_file(self.root, f"{self.folder}/{name}", lambda _: data, self.max_bytes)
        return name

    def _aside_name(self, data: bytes) -> str:
        return f"{self.name}{_ASIDE}{hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()}"

    def _unreadable_error(self, reason: str, copy_name: str) -> ToolError:
        copy = f" A copy of it is {self.folder}/{copy_name}." if copy_name else ""
        return ToolError(
            f"{self.path} {reason}. It was left unchanged.{copy}",
            hint="Correct the file, or move it away to start over.",
        )
