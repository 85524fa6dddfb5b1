"""Reads Python tracebacks: chained, of exception groups, of syntax errors, and of the fault handler."""

from __future__ import annotations

import re

from toolyard.assistant.traces.locations import leading_number
from toolyard.assistant.traces.model import Draft, Drafts, Frame

_HEADER = "Traceback (most recent call last):"
_GROUP = "+ Exception Group "
_FATAL = "Fatal Python error: "
_FILE = 'File "'
_LINE = '", line '
_ERROR = re.compile(r"[^\W\d][\w.]*+(?::|$)")


class PythonReader:
    """Reads Python tracebacks."""

    def __init__(self, drafts: Drafts) -> None:
        self._drafts = drafts
        self._draft: Draft | None = None
        self._prefix = ""
        """What precedes each line: the mark of a group, or a prefix of the log."""

    def read_line(self, line: str) -> bool:
        at = line.find(_HEADER)
        if at >= 0:
            before = line[:at]
            self._prefix = f"{before.removesuffix(_GROUP)}| " if before.endswith(_GROUP) else before
            self._draft = self._drafts.open("python", is_deepest_last=True)
            return True
        if line.startswith(_FATAL):
            self._draft = self._drafts.open("python", line)
            return True
        frame = self._parse_frame(line)
        if frame is not None:
            if self._draft is None:  # a syntax error in the main script has no header
                self._draft = self._drafts.open("python", is_deepest_last=True)
            self._draft.add(frame)
            return True
        return self._draft is not None and self._read_other_line(self._draft, line)

    def _parse_frame(self, line: str) -> Frame | None:
        at = line.find(_FILE)
        if at < 0:
            return None
        file, separator, rest = line[at + len(_FILE) :].partition(_LINE)
        number = leading_number(rest)
        if not separator or not number:
            return None
        if self._draft is None:
            self._prefix = line[:at].removesuffix("  ")
        after = rest[len(number) :].removeprefix(",")
        function = after.removeprefix(" in ") if after.startswith(" in ") else ""
        return Frame(file, int(number), 0, function.strip())

    def _read_other_line(self, draft: Draft, line: str) -> bool:
        """Reads a line of source, or the last line, which names the error."""
        body = line.removeprefix(self._prefix)
        if not draft.is_deepest_last:
            if draft.frames:
                self._draft = None
            return body.endswith("(most recent call first):")
        if not body.strip() or body[0].isspace():
            return True
        self._draft = None
        if not draft.frames or not _ERROR.match(body):
            return False
        draft.error = body
        return True
