"""Reads traces whose lines start with `at`: JavaScript of every engine, and Java. The error precedes its frames.

Each line is one call. Any other line ends the trace, and may be the error of the next one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolyard.assistant.traces.locations import language_of, parse_location
from toolyard.assistant.traces.model import Draft, Drafts, Frame, Language

_ERROR = re.compile(
    r"(?P<link>Caused by: |\[cause\]: )?(?:(?P<prefix>Suppressed: |Uncaught (?:\(in promise\) )?)"
    r'|Exception in thread "[^"]*+" )?'
    r"\[?(?P<error>(?P<name>[^\W\d][\w.$]*+)(?::.*| \[.*|))"
)
_KINDS = ("Error", "Exception", "Throwable")
_SUPPRESSED = "Suppressed: "
_MAX_MESSAGE_LINES = 25
"""Lines between an error and its frames: its message may have several."""
_NO_FILE = frozenset({"<anonymous>", "native", "native code", "unknown location"})
_NO_SOURCE = frozenset({"Native Method", "Unknown Source"})
_FUNCTION_CHARS = 200
_SIGNS_OF_A_FILE = frozenset("/\\.:")


@dataclass(frozen=True, slots=True)
class CallLine:
    """One line of a trace; `frame` is None if the line names no file."""

    language: Language
    frame: Frame | None = None


class JavascriptJavaReader:
    """Reads traces of JavaScript and Java."""

    def __init__(self, drafts: Drafts) -> None:
        self._drafts = drafts
        self._draft: Draft | None = None
        self._last: Draft | None = None
        self._error: re.Match[str] | None = None
        self._before = ""
        self._since = 0
        self._headline: Frame | None = None

    def read_line(self, line: str) -> bool:
        text = line.strip()
        call = parse_java_call(text) or parse_v8_call(text) or parse_gecko_call(text)
        if call is not None:
            self._add(call)
            return True
        if self._draft is not None and text.startswith("... "):  # `... 12 more`
            return True
        self._draft = None
        self._since += 1
        found = _ERROR.fullmatch(text)
        if found and (found["link"] or found["prefix"] or found["name"].endswith(_KINDS)):
            self._error, self._since = found, 0
        elif text:
            self._before = text
            self._remember_headline(text)
        return False

    def _add(self, call: CallLine) -> None:
        draft = self._draft
        if draft is None or draft.language != call.language:
            draft = self._draft = self._open(call.language)
        if call.frame is not None:
            draft.add(call.frame)

    def _open(self, language: Language) -> Draft:
        error = self._error if self._since <= _MAX_MESSAGE_LINES else None
        if error is None:
            draft = self._drafts.open(language, self._before)
        else:
            text = error["error"].removesuffix(" {")
            causes = self._last if error["link"] else None
            draft = self._drafts.open(language, text, causes=causes)
            # The location of a syntax error is in no frame: node prints it above the error.
            if text.startswith("SyntaxError") and self._headline is not None:
                draft.add(self._headline)
        if error is None or error["prefix"] != _SUPPRESSED:
            self._last = draft
        self._error = self._headline = None
        self._before = ""
        return draft

    def _remember_headline(self, text: str) -> None:
        where = parse_location(text)
        if where is not None and not where.column and language_of(where.file) == "javascript":
            self._headline = where.to_frame()


def parse_java_call(text: str) -> CallLine | None:
    """Parses `at java.base/com.acme.Foo$Bar.run(Foo.java:12) ~[app.jar:?]`."""
    if not text.startswith("at "):
        return None
    method, opened, rest = text[3:].partition("(")
    inside, closed, _ = rest.partition(")")
    if not opened or not closed or " " in method or "." not in method:
        return None
    if inside in _NO_SOURCE:
        return CallLine("java")
    where = parse_location(inside)
    if language_of(where.file if where else inside) != "java" or "/" in inside:
        return None
    if where is None:
        return CallLine("java")
    method = method.rpartition("/")[2]
    package = method.rpartition(".")[0].rpartition(".")[0]
    folder = f"{package.replace('.', '/')}/" if package else ""
    return CallLine("java", Frame(folder + where.file, where.line, 0, method))


def parse_v8_call(text: str) -> CallLine | None:
    """Parses `at async Cart.pay (/app/cart.js:18:17)` and `at file:///app/main.mjs:4:1`."""
    if not text.startswith("at "):
        return None
    body = text[3:].rstrip(" {,").removeprefix("async ")
    function, inside = "", body
    if body.endswith(")") and " (" in body:
        function, _, inside = body[:-1].partition(" (")
    if inside.startswith("eval at "):  # the innermost location is that of the evaluated text
        inside = inside.rpartition("(")[2].partition(")")[0]
    where = parse_location(inside)
    if where is not None and where.column and _SIGNS_OF_A_FILE.intersection(where.file):
        return CallLine("javascript", where.to_frame(function.partition(" [as ")[0]))
    if function and (inside in _NO_FILE or inside.startswith("index ")):
        return CallLine("javascript")
    return None


def parse_gecko_call(text: str) -> CallLine | None:
    """Parses lines of Firefox and Safari: `pay@http://localhost:3000/cart.js:18:17`, `map@[native code]`."""
    function, at, rest = text.partition("@")
    if not at or len(function) > _FUNCTION_CHARS:
        return None
    if rest == "[native code]":
        return CallLine("javascript")
    where = parse_location(rest)
    if where is None or not where.column or " " in rest or not (rest.startswith("/") or "://" in rest):
        return None
    return CallLine("javascript", where.to_frame(function.rpartition("*")[2].removesuffix("/<")))
