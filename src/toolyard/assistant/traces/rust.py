"""Reads Rust panics of the current and the former format, their backtraces, and the compiler's errors."""

from __future__ import annotations

import re

from toolyard.assistant.traces.locations import leading_number, parse_location
from toolyard.assistant.traces.model import Draft, Drafts, Frame

_PANICKED = " panicked at "
_QUOTE_ENDS = "', "
_ASSERTED = ("left: ", "right: ")
_ADDRESS = re.compile(r"0x[0-9a-f]{1,16} - ")
_HASH = re.compile(r"::h[0-9a-f]{16}$")


class RustReader:
    """Reads panics and compiler errors of Rust."""

    def __init__(self, drafts: Drafts) -> None:
        self._drafts = drafts
        self._draft: Draft | None = None
        self._panic: Frame | None = None
        self._is_message_next = False
        self._is_quoted = False
        """Whether the quoted message of a panic in the former format continues; the location follows it."""
        self._symbol = ""
        self._diagnosis = ""

    def read_line(self, line: str) -> bool:
        text = line.strip()
        if text.startswith("thread '") and _PANICKED in text:
            self._begin_panic(text.partition(_PANICKED)[2])
            return True
        if self._draft is not None and (self._is_message_next or self._is_quoted):
            self._read_message(self._draft, text)
            return True
        if self._draft is not None and text.startswith(_ASSERTED):
            self._draft.error = f"{self._draft.error}; {text}"
            return True
        if text.startswith("note: "):
            self._draft = None
        return self._read_symbol(text) or self._read_location(text) or self._read_compiler_error(text)

    def _begin_panic(self, text: str) -> None:
        self._panic, self._symbol, self._is_message_next, self._is_quoted = None, "", False, False
        self._draft = self._drafts.open("rust", is_bare=True)
        if text.startswith("'"):
            self._is_quoted = True
            self._read_message(self._draft, text[1:])
        else:
            self._is_message_next = True
            self._set_location(self._draft, text.removesuffix(":"))

    def _read_message(self, draft: Draft, text: str) -> None:
        if self._is_message_next:
            draft.error, self._is_message_next = text, False
            return
        message, ended, rest = text.rpartition(_QUOTE_ENDS)
        is_over = bool(ended) and parse_location(rest) is not None
        line = message if is_over else text
        draft.error = f"{draft.error}; {line}" if draft.error else line
        if is_over:
            self._set_location(draft, rest)
        self._is_quoted = not is_over and len(draft.error) < 1_000

    def _set_location(self, draft: Draft, text: str) -> None:
        where = parse_location(text)
        if where is not None:
            self._panic = where.to_frame()
            draft.add(self._panic)

    def _read_symbol(self, text: str) -> bool:
        """Reads `  4: shop::prices::of`, with an address before it in a full backtrace."""
        number = leading_number(text)
        if not number or not text.startswith(": ", len(number)):
            return False
        symbol = text[len(number) + 2 :].lstrip()
        self._symbol = _HASH.sub("", _ADDRESS.sub("", symbol, count=1)[:500])
        return self._draft is not None

    def _read_location(self, text: str) -> bool:
        if not self._symbol or not text.startswith("at "):
            return False
        where = parse_location(text[3:])
        if where is None:
            return False
        if self._draft is None:
            self._draft = self._drafts.open("rust")
        frame = where.to_frame(self._symbol)
        if self._panic is not None and _is_same_location(self._panic, frame):
            self._draft.frames.remove(self._panic)  # this frame has the function
            self._panic = None
        self._draft.add(frame)
        self._symbol = ""
        return True

    def _read_compiler_error(self, text: str) -> bool:
        if text.startswith(("error[", "error: ")):
            self._diagnosis, self._draft = text, None
            return True
        if text.startswith("warning: "):
            self._diagnosis = ""
            return True
        if not text.startswith("--> "):
            return False
        where = parse_location(text[4:])
        if where is None or not self._diagnosis:
            return False
        self._drafts.open("rust", self._diagnosis).add(where.to_frame())
        self._diagnosis = ""
        return True


def _is_same_location(one: Frame, other: Frame) -> bool:
    return one.line == other.line and other.file.removeprefix("./").endswith(one.file.removeprefix("./"))
