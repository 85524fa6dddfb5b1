"""Finds every trace in a text, whatever surrounds it: a log, a letter, the output of a test run. Pure functions.

The text is read line by line, and each line goes to the first reader that recognises it. Readers do not look back or
ahead, so the time is linear; the middle of a very long text is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Protocol

from toolyard.assistant.traces.compilers import CompilerReader
from toolyard.assistant.traces.go import GoReader
from toolyard.assistant.traces.javascript_java import JavascriptJavaReader
from toolyard.assistant.traces.model import Drafts, Trace
from toolyard.assistant.traces.native import NativeReader
from toolyard.assistant.traces.pytest import PytestReader
from toolyard.assistant.traces.python import PythonReader
from toolyard.assistant.traces.rust import RustReader

MOST_CHARS = 1_000_000
MOST_LINES = 50_000
_LINE_CHARS = 2_000
_COLORS = re.compile(r"\x1b\[[0-9;]{0,16}m")
# The last one accepts every line that starts with `at`, so it comes after the others.
_READERS = (PythonReader, PytestReader, RustReader, GoReader, NativeReader, CompilerReader, JavascriptJavaReader)


class TraceReader(Protocol):
    """Reads the traces of one language or tool."""

    def read_line(self, line: str) -> bool:
        """Reads a line; returns whether it belongs to a trace of this kind."""
        ...


def parse_traces(text: str) -> tuple[Trace, ...]:
    """Returns the distinct traces in `text`, in order; a cause comes before what it caused."""
    drafts = Drafts()
    readers: tuple[TraceReader, ...] = tuple(reader(drafts) for reader in _READERS)
    for line in _clean_lines(text):
        for reader in readers:
            if reader.read_line(line):
                break
    return drafts.traces()


def _clean_lines(text: str) -> Iterator[str]:
    """Yields the lines without colours, and consecutive empty lines as one."""
    if len(text) > MOST_CHARS:
        text = f"{text[: MOST_CHARS // 2]}\n{text[-MOST_CHARS // 2 :]}"
    *first, rest = text.split("\n", MOST_LINES // 2)
    last = rest.rsplit("\n", MOST_LINES // 2)
    if len(last) > MOST_LINES // 2:
        last[0] = ""  # replaces everything in between
    was_empty = False
    for line in chain(first, last):
        line = line[:_LINE_CHARS].rstrip("\r")
        if "\x1b" in line:
            line = _COLORS.sub("", line)
        is_empty = not line
        if not (is_empty and was_empty):
            yield line
        was_empty = is_empty
