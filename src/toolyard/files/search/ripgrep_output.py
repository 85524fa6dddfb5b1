"""Parses ripgrep's output into one record per file. Any file name can be parsed: names end in NUL.

With `--heading` a file is `./name`, NUL, and its lines: `12:text` for a match, `13-text` for context, `--` between
groups. A blank line precedes the next file. Lines start with their number, so content is never a blank line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

WALKED = b"./"
"""Prefix of names when ripgrep walked its working folder."""
DESCRIPTOR = b"/dev/fd/"
"""Prefix of names when ripgrep was given open files."""

# Printed instead of lines, or after them.
_BINARY = re.compile(
    rb"([^\0]+): (?:WARNING: stopped searching )?binary file (?:matches|after match) \(found [^\n]*\)"
)


class FileMatches(NamedTuple):  # faster to create than a dataclass; one search may create tens of thousands
    """One file with matches: its name without the prefix, and its lines, its count, or nothing."""

    name: str
    body: bytes


def parse_names(data: bytes, prefix: bytes) -> list[str]:
    """Parses the output of `--files` or `--files-with-matches`. An incomplete last name is dropped."""
    cut = len(prefix)
    return [name[cut:] for name in os.fsdecode(data).split("\0")[:-1]]  # one decode for all: there may be many names


def parse_counts(data: bytes, prefix: bytes) -> Iterator[FileMatches]:
    """Parses the output of `--count --with-filename`."""
    cut = len(prefix)
    at = 0
    while (end := data.find(b"\0", at)) >= 0:
        line = data.find(b"\n", end)
        if line < 0:
            return
        yield FileMatches(os.fsdecode(data[at + cut : end]), data[end + 1 : line])
        at = line + 1


def parse_blocks(data: bytes, prefix: bytes, *, torn: bool) -> Iterator[FileMatches]:
    """Parses the output of `--heading --line-number --with-filename`; with `torn` the last line may be incomplete."""
    if torn:
        data = data[: data.rfind(b"\n") + 1]
    unfinished = b""  # a name with an empty line in it
    for piece in data.removeprefix(prefix).split(b"\n\n" + prefix):
        block = unfinished + piece
        name, nul, body = block.partition(b"\0")
        if nul:
            unfinished = b""
            yield FileMatches(os.fsdecode(name), body.rstrip(b"\n"))
        elif message := _BINARY.fullmatch(block.rstrip(b"\n")):
            unfinished = b""
            yield FileMatches(os.fsdecode(message[1]), b"")
        else:
            unfinished = block + b"\n\n" + prefix


def possible_names(name: str) -> Iterator[str]:
    """Yields every file that a name from `parse_blocks` could mean: all must be visible to show its lines.

    A folder's name may contain a blank line, and so may ripgrep's message about binary files; neither can be used to
    show the lines of a hidden file.
    """
    yield name
    mark = "\n\n" + os.fsdecode(WALKED)
    while mark in name:
        name = name.partition(mark)[2]
        yield name
