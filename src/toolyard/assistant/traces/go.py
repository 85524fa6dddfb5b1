"""Reads Go panics with their goroutines, and failed tests."""

from __future__ import annotations

from toolyard.assistant.traces.locations import parse_location
from toolyard.assistant.traces.model import Draft, Drafts

_ERRORS = ("panic: ", "fatal error: ")
_SERVING = "http: panic serving "
_GOROUTINE = "goroutine "
_CREATED = "created by "
_FAILED = "--- FAIL: "
_SOURCES = (".go", ".s")


class GoReader:
    """Reads panics and test failures of Go."""

    def __init__(self, drafts: Drafts) -> None:
        self._drafts = drafts
        self._draft: Draft | None = None
        self._error = ""
        self._function = ""
        self._test = ""

    def read_line(self, line: str) -> bool:
        text = line.strip()
        if text.startswith(_ERRORS) or _SERVING in text:
            # A recovered panic is followed by the next one, indented.
            self._error = f"{self._error}; {text}" if self._error and line[0].isspace() else text
            self._draft = None
            return True
        if text.startswith(_GOROUTINE) and text.endswith("]:"):
            self._draft = self._drafts.open("go", self._error or text[:-1])
            self._error = self._function = self._test = ""
            return True
        if text.startswith(_FAILED):
            self._test = text.removeprefix(_FAILED).partition(" ")[0]
            self._draft = self._drafts.open("go", text)
            return True
        return self._draft is not None and self._read_trace_line(self._draft, line, text)

    def _read_trace_line(self, draft: Draft, line: str, text: str) -> bool:
        if not text:
            self._draft = None
            return False
        if not line[0].isspace():
            self._function = text.removeprefix(_CREATED).partition(" in goroutine ")[0]
            if text.endswith(")"):
                self._function = self._function.rpartition("(")[0]
            return self._function != text
        message = ""
        if self._test:
            text, _, message = text.partition(": ")
        where = parse_location(text.partition(" ")[0] if not self._test else text)
        if where is None or not where.file.endswith(_SOURCES):
            return False
        if message and not draft.frames:
            draft.error = f"{self._test}: {message}"
        draft.add(where.to_frame(self._test or self._function))
        return True
