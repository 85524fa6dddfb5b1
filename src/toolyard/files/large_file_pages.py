"""Reads a page of a file too large to read whole: counts lines in chunks and keeps only the wanted ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from io import BufferedReader, FileIO

from toolyard.core.calls import Text
from toolyard.core.errors import ToolError, ValidationError
from toolyard.core.limits import Limits
from toolyard.files.content.file_type import Category, sniff
from toolyard.files.content.render import RenderedFile
from toolyard.files.content.text import cut_long_lines, number_lines
from toolyard.files.mounts import Target
from toolyard.files.os_errors import explain

_CHUNK = 1 << 20
_SNIFFED = 1 << 13
_LONGEST_CHARACTER = 4  # bytes of one character in UTF-8


def read_large_page(
    target: Target, first: int, count: int, limits: Limits, check_time: Callable[[], None]
) -> RenderedFile:
    """Returns lines `first` to `first + count - 1`, numbered. `check_time` is called between chunks and may raise."""
    if first < 1:
        raise ValidationError.of("offset", "must be 1 or more", hint="Lines are counted from 1.")
    try:
        fd = target.handle.reopen_fd(os.O_RDONLY)
    except OSError as error:
        raise explain(error, target.path) from error
    with BufferedReader(FileIO(fd, "rb"), _CHUNK) as stream:
        try:
            return _read_page(stream, target, range(first, first + count), limits, check_time)
        except OSError as error:
            raise explain(error, target.path) from error


def _read_page(
    stream: BufferedReader[FileIO], target: Target, wanted: range, limits: Limits, check_time: Callable[[], None]
) -> RenderedFile:
    first = wanted.start
    kind = sniff(stream.peek(_SNIFFED)[:_SNIFFED], target.path)
    if kind.category is not Category.TEXT:
        raise ToolError(
            f"{target.path} is larger than {limits.file_bytes:,} bytes and not text.", hint="Search it instead."
        )
    skipped = _skip(stream, first - 1, check_time)
    if skipped < first - 1:
        raise ToolError(f"{target.path} has only {skipped:,} lines.", hint="Use a smaller offset.")
    lines = _read_lines(stream, len(wanted), limits, check_time)
    if not lines and first > 1:
        raise ToolError(f"{target.path} has only {skipped:,} lines.", hint="Use a smaller offset.")
    total = skipped + len(lines) + _count_rest(stream, check_time)
    last = first + len(lines) - 1
    content = number_lines(lines, first, limits.line_chars)
    more = f" Use offset={last + 1} for what follows." if last < total else ""
    note = f"Lines {first}-{last} of {total}.{more}"
    return RenderedFile(
        parts=(Text(f"{content}\n\n[{note}]"),),
        kind=kind,
        content="".join(f"{line}\n" for line in cut_long_lines(lines, limits.line_chars)[0]),
        note=note,
        encoding="utf-8",
        first_line=first,
        line_count=len(lines),
        total_lines=total,
        truncated=first > 1 or last < total,
    )


def _skip(stream: BufferedReader[FileIO], lines: int, check_time: Callable[[], None]) -> int:
    """Skips `lines` lines. Returns how many could be skipped, including a last one without a line end."""
    passed, last = 0, b"\n"
    while passed < lines:
        check_time()
        chunk = stream.peek(_CHUNK)
        if not chunk:
            return passed + (not last.endswith(b"\n"))
        last = chunk
        found = chunk.count(b"\n")
        if passed + found < lines:
            passed += found
            stream.read(len(chunk))
            continue
        position = -1
        for _ in range(lines - passed):
            position = chunk.index(b"\n", position + 1)
        stream.read(position + 1)
        return lines
    return passed


def _read_lines(
    stream: BufferedReader[FileIO], count: int, limits: Limits, check_time: Callable[[], None]
) -> list[str]:
    most = (limits.line_chars + 1) * _LONGEST_CHARACTER
    lines: list[str] = []
    left = limits.output_chars
    while len(lines) < count and left > 0:
        raw = stream.readline(most)
        if not raw:
            break
        if not raw.endswith(b"\n"):
            _skip_rest_of_line(stream, check_time)
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        left -= min(len(line), limits.line_chars) + 1
        lines.append(line)
    return lines


def _skip_rest_of_line(stream: BufferedReader[FileIO], check_time: Callable[[], None]) -> None:
    while True:
        check_time()
        rest = stream.readline(_CHUNK)
        if not rest or rest.endswith(b"\n"):
            return


def _count_rest(stream: BufferedReader[FileIO], check_time: Callable[[], None]) -> int:
    found, last = 0, b"\n"
    while chunk := stream.read(_CHUNK):
        check_time()
        found += chunk.count(b"\n")
        last = chunk
    return found + (not last.endswith(b"\n"))
