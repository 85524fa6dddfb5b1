"""Every trace in a text, whatever surrounds it: a log, a letter, the output of a test run. Pure.

The text goes by line by line, and each line to the first reader that knows it. Nothing looks back or ahead, so the
time is in proportion to the text; of a very long one the middle is left out.
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
# The last one takes every line that begins with `at`, so others choose before it.
_READERS = (PythonReader, PytestReader, RustReader, GoReader, NativeReader, CompilerReader, JavascriptJavaReader)


class TraceReader(Protocol):
    def read_line(self, line: str) -> bool:
        """Read a line; whether it belongs to a trace of this kind."""
        ...


def parse_traces(text: str) -> tuple[Trace, ...]:
    """The traces in `text`, each once, in their order; a cause stands before what it caused."""
    drafts = Drafts()
    readers: tuple[TraceReader, ...] = tuple(reader(drafts) for reader in _READERS)
    for line in _clean_lines(text):
        for reader in readers:
            if reader.read_line(line):
                break
    return drafts.traces()


def _clean_lines(text: str) -> Iterator[str]:
    """The lines without colours and, where several are empty, one of them."""
    if len(text) > MOST_CHARS:
        text = f"{text[: MOST_CHARS // 2]}\n{text[-MOST_CHARS // 2 :]}"
    *first, rest = text.split("\n", MOST_LINES // 2)
    last = rest.rsplit("\n", MOST_LINES // 2)
    if len(last) > MOST_LINES // 2:
        last[0] = ""  # all that is between
    was_empty = False
    for line in chain(first, last):
        line = line[:_LINE_CHARS].rstrip("\r")
        if "\x1b" in line:
            line = _COLORS.sub("", line)
        is_empty = not line
        if not (is_empty and was_empty):
            yield line
        was_empty = is_empty
