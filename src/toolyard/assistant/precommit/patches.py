"""Parses the output of `git diff --raw -z --patch`: a record for each file, and its part of the patch.

A diff may be many megabytes, and one long call would block other threads, so everything is parsed line by line. A
truncated patch is parsed as far as it goes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from toolyard.assistant.precommit.text_in_binary import decode_line

_DIFF_CHARS = 1_000_000
"""Stored of a file's diff: more than a model is shown."""
MOST_LINE_CHARS = 2_300
"""A little more than is shown of a line: a secret at its end must be seen whole to be masked."""
_HUNK = re.compile(rb"@@+ (?:-\d+(?:,\d+)? )+\+(\d+)(?:,\d+)? (@@+)")
_START = re.compile(rb"diff --(git|cc|combined) ")
_NEXT = b"\ndiff --"
_RENAMED = (b"rename to ", b"copy to ")
_ESCAPED = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_PLAIN = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_OCTAL_DIGITS = 3


@dataclass(frozen=True, slots=True)
class DiffRecord:
    """One file in the raw format."""

    old_mode: str
    new_mode: str
    blob: str
    """The new content; all zeros if git has not stored it."""
    letter: str
    path: str
    old_path: str = ""


@dataclass(slots=True)
class FilePatch:
    """A file's part of the patch."""

    is_binary: bool = False
    added: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    removed: list[str] = field(default_factory=list[str])
    lines: list[str] = field(default_factory=list[str])
    chars: int = 0
    left_out: int = 0
    """Number of lines that follow the stored ones."""
    last_line: int = 0

    @property
    def diff(self) -> str:
        return "\n".join(self.lines)

    def add_line(self, line: str) -> None:
        """Appends a line to the diff, up to the size limit."""
        self.chars += min(len(line), MOST_LINE_CHARS) + 1
        if self.chars <= _DIFF_CHARS:
            self.lines.append(line[:MOST_LINE_CHARS])
        else:
            self.left_out += 1


def parse_diff(data: bytes, check: Callable[[], None]) -> tuple[list[DiffRecord], dict[str, FilePatch]]:
    """Returns the records, and the patches by new path. `check` is called repeatedly and may raise."""
    records, at = _parse_records(data)
    patches: dict[str, FilePatch] = {}
    begin = data.find(b"diff --", at)
    while begin >= 0:
        check()
        end = data.find(_NEXT, begin)
        stop = len(data) if end < 0 else end + 1
        path = _new_path(data, begin, stop)
        # A type change has two patches for one path: one removes the old file, one adds the new one.
        _read_patch(data, begin, stop, patches.setdefault(path, FilePatch()), check)
        begin = -1 if end < 0 else end + 1
    return records, patches


def _parse_records(data: bytes) -> tuple[list[DiffRecord], int]:
    found: list[DiffRecord] = []
    at = 0
    while data.startswith(b":", at):
        end = data.find(b"\0", at)
        fields = data[at + 1 : end].decode("ascii", "replace").split(" ")
        letter = fields[4][:1]
        paths: list[str] = []
        at = end + 1
        for _ in range(2 if letter in {"R", "C"} else 1):
            end = data.find(b"\0", at)
            if end < 0:
                return found, len(data)
            paths.append(os.fsdecode(data[at:end]))
            at = end + 1
        old = paths[0] if len(paths) > 1 else ""
        found.append(DiffRecord(fields[0], fields[1], fields[3], letter, paths[-1], old))
    return found, at


def _lines(data: bytes, begin: int, stop: int) -> Iterator[bytes]:
    while begin < stop:
        end = data.find(b"\n", begin, stop)
        end = stop if end < 0 else end
        yield data[begin:end]
        begin = end + 1


def _new_path(data: bytes, begin: int, stop: int) -> str:
    """Returns the new file's path from the lines before the first hunk."""
    lines = _lines(data, begin, stop)
    first = next(lines)
    kind = _START.match(first)
    names = first[kind.end() :] if kind else b""
    for line in lines:
        if line.startswith(b"@@"):
            break
        for word in _RENAMED:
            if line.startswith(word):
                return os.fsdecode(unquote_path(line.removeprefix(word)))
    if kind is None or kind[1] != b"git":
        return os.fsdecode(unquote_path(names))
    quoted = _QUOTED.match(names)
    if quoted is not None:
        return os.fsdecode(unquote_path(quoted[0]))[2:]
    # `a/path b/path`: the same path twice.
    return os.fsdecode(names[2 : 2 + (len(names) - 5) // 2])


def unquote_path(name: bytes) -> bytes:
    """Decodes a path as git quotes it: in double quotes if it has special characters."""
    quoted = _QUOTED.fullmatch(name)
    if quoted is None:
        return name
    return _ESCAPED.sub(_unescape, quoted[1])


def _unescape(match: re.Match[bytes]) -> bytes:
    what = match[1]
    return bytes((int(what, 8),)) if len(what) == _OCTAL_DIGITS else _PLAIN.get(what, what)


def _read_patch(data: bytes, begin: int, stop: int, patch: FilePatch, check: Callable[[], None]) -> None:
    number, sides = 0, 0
    for at, line in enumerate(_lines(data, begin, stop)):
        if not at % 10_000:
            check()
        hunk = _HUNK.match(line) if line.startswith(b"@@") else None
        if hunk is not None:
            number, sides = int(hunk[1]), len(hunk[2]) - 1
        elif not sides:  # still in its header
            if line.startswith((b"Binary files ", b"GIT binary patch")):
                patch.is_binary = True
            if line.startswith(b"* Unmerged path ") or not line:
                continue
        elif not line.startswith(b"\\"):  # "\ No newline at end of file"
            marks, text = line[:sides], decode_line(line[sides:].removesuffix(b"\r"))
            if b"-" in marks:
                patch.removed.append(text)
            else:
                if b"+" in marks:
                    patch.added.append((number, text))
                patch.last_line = number
                number += 1
        patch.add_line(decode_line(line.removesuffix(b"\r")))
