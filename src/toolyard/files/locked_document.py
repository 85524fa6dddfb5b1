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
from toolyard.files.safe_paths import ensure_folder, open_folder, place, read_file, rewrite_file, size_of
from toolyard_runtime.json_list import Unreadable, parse_list, text_of, write_list

__all__ = ["FILE_BYTES", "Document", "Unreadable", "parse_list", "text_of", "write_list"]

FILE_BYTES = 8 * MIB
"""The largest of them. Together with its form in memory it has to be read in a moment."""
_ASIDE = ".unreadable-"
_MOST_ASIDE = 20
_DIGEST_BYTES = 5

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Document(Generic[T]):
    """`parse` raises Unreadable; `write` gives the bytes for a value, from the former bytes where that matters."""

    root: Root
    folder: str
    name: str
    parse: Callable[[bytes], T]
    write: Callable[[T, bytes], bytes]
    most: int = FILE_BYTES

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}"

    def read(self) -> T:
        data = self._data()
        try:
            return self.parse(data or b"")
        except Unreadable as error:
            raise self._fault(str(error), "") from None

    def change(self, how: Callable[[T], T]) -> T:
        """What `how` makes of the value becomes the file. When `how` raises, nothing is changed."""
        ensure_folder(self.root, self.folder)
        self._check_size()
        made: list[T] = []
        unread: list[bytes] = []

        def changed(before: bytes | None) -> bytes:
            data = before or b""
            try:
                value = self.parse(data)
            except Unreadable:
                unread.append(data)
                raise
            made.append(how(value))
            after = self.write(made[-1], data)
            if len(after) > self.most:
                raise ValidationError.of(
                    self.name, f"would be larger than {self.most:,} bytes", hint="Forget what is not needed."
                )
            return after

        try:
            rewrite_file(self.root, self.path, changed, self.most)
        except Unreadable as error:
            raise self._fault(str(error), self._keep(unread[-1])) from None
        return made[-1]

    def set_aside(self) -> str | None:
        """Move a file that cannot be read out of the way. Its new name, None when it can be read."""
        data = self._data()
        try:
            self.parse(data or b"")
        except Unreadable:
            kept = self._aside(data or b"")
        else:
            return None
        with place(self.root, self.path) as source, place(self.root, f"{self.folder}/{kept}") as there:
            if not there.exists:
                file_io.move(source, there)
                return kept
        # A copy of it is there already: the file itself may go, if it still is what was copied.
        folder = open_folder(self.root, self.folder)
        if folder is not None:
            try:
                if read_file(self.root, self.path, self.most) == data:
                    os.unlink(self.name, dir_fd=folder)
            finally:
                os.close(folder)
        return kept

    def _data(self) -> bytes | None:
        self._check_size()
        return read_file(self.root, self.path, self.most)

    def _check_size(self) -> None:
        """In words of its own: who reads these files cannot ask for a part of one."""
        size = size_of(self.root, self.path)
        if size > self.most:
            raise ToolError(
                f"{self.path} has {size:,} bytes, and at most {self.most:,} are read. It was left as it is.",
                hint="Move what is not needed into another file.",
            )

    def _keep(self, data: bytes) -> str:
        name = self._aside(data)
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
            rewrite_file(self.root, f"{self.folder}/{name}", lambda _: data, self.most)
        return name

    def _aside(self, data: bytes) -> str:
        return f"{self.name}{_ASIDE}{hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()}"

    def _fault(self, why: str, kept: str) -> ToolError:
        copy = f" A copy of it is {self.folder}/{kept}." if kept else ""
        return ToolError(
            f"{self.path} {why}. It was left as it is.{copy}",
            hint="Correct the file, or move it away to begin anew.",
        )
