"""Reads errors of C and C++: gdb's backtraces, sanitizers, valgrind, failed assertions, messages of the C library."""

from __future__ import annotations

import re
from dataclasses import replace

from toolyard.assistant.traces.locations import SourceLocation, leading_number, parse_location
from toolyard.assistant.traces.model import Draft, Drafts, Frame

_ADDRESS = re.compile(r"0x[0-9a-f]{1,16} in ")
_VALGRIND_CALL = re.compile(r"(at|by) 0x[0-9A-F]{1,16}: (.*)")
_PROCESS = re.compile(r"==\d{1,9}==")
_SIGNAL = re.compile(r"(?:Program|Thread \d{1,9} \"[^\"]{0,64}\") (?:received|terminated with) signal .*")
_SANITIZER = ("ERROR: ", "WARNING: ")
_ALSO = " here:"
_RUNTIME_ERROR = ": runtime error: "
_ASSERTION = ": Assertion `"
_LAST_WORDS = (
    "free(): ",
    "malloc(): ",
    "realloc(): ",
    "munmap_chunk(): ",
    "malloc_consolidate(): ",
    "double free or corruption",
    "corrupted size vs. prev_size",
    "corrupted double-linked list",
    "*** stack smashing detected ***",
    "*** buffer overflow detected ***",
    "terminate called ",
    "Segmentation fault",
    "Floating point exception",
    "Bus error",
)


class NativeReader:
    """Reads traces of native programs."""

    def __init__(self, drafts: Drafts) -> None:
        self._drafts = drafts
        self._draft: Draft | None = None
        self._error = ""
        self._without_stack: Draft | None = None
        """The draft that has an error but no stack yet."""

    def read_line(self, line: str) -> bool:
        text = line.strip()
        if text.startswith("#"):
            return self._read_gdb_frame(text)
        if text.startswith("=="):
            marked = _PROCESS.match(text)
            return marked is not None and self._read_process_line(text[marked.end() :])
        return self._read_message(text)

    def _read_gdb_frame(self, text: str) -> bool:
        number = leading_number(text[1:])
        if not number:
            return False
        frame = _parse_frame(text[1 + len(number) :].strip())
        if int(number) == 0:
            self._draft = self._without_stack or self._drafts.open("c", self._error)
            self._without_stack, self._error = None, ""
        if self._draft is None:
            return False
        if frame is not None:
            frames = self._draft.frames
            if frames and _is_same_line(
                frames[-1], frame
            ):  # already added with its column; this line has the function
                frames[-1] = replace(frames[-1], function=frame.function)
            else:
                self._draft.add(frame)
        return True

    def _read_process_line(self, body: str) -> bool:
        """Reads a line with the process number: valgrind puts a space after it, sanitizers do not."""
        if body.startswith(_SANITIZER):
            self._error = body.partition(": ")[2]
            return True
        if not body.startswith(" "):
            return True
        call = _VALGRIND_CALL.fullmatch(body.strip())
        if call is None:
            self._error = body.strip() or self._error
            return True
        if call[1] == "at":
            self._draft = self._drafts.open("c", self._error)
        function, _, inside = call[2].removesuffix(")").rpartition(" (")
        where = parse_location(inside)
        if self._draft is not None and where is not None:
            self._draft.add(where.to_frame(function))
        return True

    def _read_message(self, text: str) -> bool:
        if _SIGNAL.match(text) or text.endswith(_ALSO):
            self._error, self._without_stack = text, None
            return True
        if _RUNTIME_ERROR in text:
            head, _, message = text.partition(_RUNTIME_ERROR)
            return self._add_error(f"runtime error: {message}", parse_location(head))
        if _ASSERTION in text and text.endswith("failed."):
            return self._read_assertion(text)
        if text.startswith(_LAST_WORDS):
            self._drafts.open("c", text, is_bare=True)
            return True
        return False

    def _read_assertion(self, text: str) -> bool:
        """Reads ``shop: src/main.c:11: checkout: Assertion `total == 3' failed.``"""
        head, _, message = text.partition(_ASSERTION)
        before, _, function = head.rpartition(": ")
        return self._add_error(f"Assertion `{message}", parse_location(before.rpartition(": ")[2]), function)

    def _add_error(self, error: str, location: SourceLocation | None, function: str = "") -> bool:
        if location is None:
            return False
        self._without_stack = self._drafts.open("c", error)
        self._without_stack.add(location.to_frame(function))
        return True


def _parse_frame(text: str) -> Frame | None:
    """Parses `0x5555 in price (at=0x0) at src/prices.c:16` or `0x5555 in price src/prices.c:16:3`."""
    text = _ADDRESS.sub("", text, count=1)
    head, at, rest = text.rpartition(" at ")
    where = parse_location(rest) if at else None
    if where is not None:
        return where.to_frame(head.partition(" (")[0])
    function, _, rest = text.rpartition(" ")
    where = parse_location(rest)
    return where.to_frame(function) if where is not None and function else None


def _is_same_line(one: Frame, other: Frame) -> bool:
    return not one.function and (one.file, one.line) == (other.file, other.line)
