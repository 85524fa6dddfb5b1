"""One file that people and programs share: read whole, changed under the folder's lock, replaced in one step.

Agents and people write these files too. What cannot be understood is never overwritten: it stays where it is, a copy
of it is kept beside it, and the error says what to do. `set_aside` is how somebody decides to begin anew.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from toolyard.core.errors import ToolError, ValidationError
from toolyard.core.limits import MIB
from toolyard.fs import files
from toolyard.fs.roots import Root
from toolyard.workspace.places import ensure_folder, open_folder, place, read_file, rewrite_file

FILE_BYTES = 8 * MIB
"""The largest of them. Together with its form in memory it has to be read in a moment."""
_ASIDE = ".unreadable-"
_MOST_ASIDE = 20
_DIGEST_BYTES = 5

T = TypeVar("T")


class Unreadable(ValueError):  # noqa: N818 - a state of the file, told to its reader as a ToolError
    """Content that cannot be what the file is for. The text says why."""


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
        data = read_file(self.root, self.path, self.most)
        try:
            return self.parse(data or b"")
        except Unreadable as error:
            raise self._fault(str(error), "") from None

    def change(self, how: Callable[[T], T]) -> T:
        """What `how` makes of the value becomes the file. When `how` raises, nothing is changed."""
        ensure_folder(self.root, self.folder)
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
        data = read_file(self.root, self.path, self.most)
        try:
            self.parse(data or b"")
        except Unreadable:
            kept = self._aside(data or b"")
        else:
            return None
        with place(self.root, self.path) as source, place(self.root, f"{self.folder}/{kept}") as there:
            if not there.exists:
                files.move(source, there)
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


def text_of(data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"is not UTF-8 text (byte {error.start})") from None
    if "\0" in text:
        raise Unreadable("holds NUL bytes, which no text does")
    return text


def parse_list(data: bytes) -> list[Any]:
    """A JSON list. What would be lost when it is written again (keys that appear twice, NaN) is refused."""
    text = text_of(data)
    if not text.strip():
        return []
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_finite, strict=False
        )
    except json.JSONDecodeError as error:
        raise Unreadable(f"is not JSON: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise Unreadable("is nested too deeply") from None
    except Unreadable:
        raise
    except ValueError as error:  # a number with thousands of digits
        raise Unreadable(f"cannot be read: {error}") from None
    if not isinstance(value, list):
        raise Unreadable("has to be a list, as in [ {…}, {…} ]")
    return value  # pyright: ignore[reportUnknownVariableType]


def write_list(entries: list[Any], _: bytes = b"") -> bytes:
    text = json.dumps(entries, ensure_ascii=False, indent=2) + "\n"
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair: only its escape can be written
        return (json.dumps(entries, indent=2) + "\n").encode()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise Unreadable("has a key that appears twice in one entry")
    return made


def _refuse_constant(name: str) -> Any:
    raise Unreadable(f"holds {name}, which is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in {float("inf"), float("-inf")}:
        raise Unreadable(f"holds a number that is too large: {text}")
    return number
