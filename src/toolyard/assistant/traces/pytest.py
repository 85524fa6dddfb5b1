"""Reads pytest's own tracebacks, long and short: `shop/prices.py:7: KeyError`, `shop/prices.py:11: in total`."""

from __future__ import annotations

import re

from toolyard.assistant.traces.locations import leading_number
from toolyard.assistant.traces.model import Draft, Drafts, Frame

_ENDING = ".py:"
_ERROR_LINE = re.compile(r"E {2,}(\S.*)")
_NAME = re.compile(r"(?:[^\W\d][\w.]*+)?")
_FUNCTION = re.compile(r"(?:    |>   )(?:async )?def (\w++)")
_OUTSIDE = re.compile(r">   \S")
"""The line that failed, if it is in none of the functions that are shown."""
_NEXT_FRAME = "_ _ _ "
_BETWEEN = ("____", "====", "The above exception was", "During handling of")


class PytestReader:
    """Reads pytest's tracebacks."""

    def __init__(self, drafts: Drafts) -> None:
        self._drafts = drafts
        self._draft: Draft | None = None
        self._error = ""
        self._function = ""
        """The function whose source is shown; the location of the failure follows the source."""
        self._before: Frame | None = None

    def read_line(self, line: str) -> bool:
        if line.startswith((_NEXT_FRAME, *_BETWEEN)):
            self._function, self._before = "", None
            if not line.startswith(_NEXT_FRAME):
                self._draft, self._error = None, ""
            return False
        if error := _ERROR_LINE.match(line):
            self._set_error(error[1])
            return True
        if (defined := _FUNCTION.match(line)) or _OUTSIDE.match(line):
            self._function = defined[1] if defined else ""
            return False
        frame = self._parse_frame(line)
        if frame is None:
            return False
        if self._draft is None:
            self._draft = self._drafts.open("python", self._error, is_deepest_last=True)
        self._draft.add(frame)
        self._function, self._before = "", frame
        return True

    def _set_error(self, error: str) -> None:
        """Records the error.

        It precedes the location in the long style and follows it in the short one; the first line counts.
        """
        self._error = self._error or error
        if self._draft is not None:
            self._draft.error = self._error

    def _parse_frame(self, line: str) -> Frame | None:
        at = line.find(_ENDING)
        if at <= 0 or line[0].isspace():
            return None
        rest = line[at + len(_ENDING) :]
        number = leading_number(rest)
        after = rest[len(number) :]
        if not number or not after.startswith(":"):
            return None
        after = after[1:].strip()
        file = line[: at + len(_ENDING) - 1]
        if after.startswith("in "):
            return Frame(file, int(number), 0, after.removeprefix("in "))
        return Frame(file, int(number), 0, self._function_name(file, int(number))) if _NAME.fullmatch(after) else None

    def _function_name(self, file: str, number: int) -> str:
        before = self._before
        if self._function or before is None or (before.file, before.line) != (file, number):
            return self._function
        return before.function
