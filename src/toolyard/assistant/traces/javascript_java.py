"""Traces whose lines say `at`: JavaScript's of every engine, and Java's. The error stands before its frames.

Each line is one call. Where a line is none, the trace is over, and the line may be the error of the next.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolyard.assistant.traces.locations import language_of, place
from toolyard.assistant.traces.model import Draft, Drafts, Frame, Language

_ERROR = re.compile(
    r"(?P<link>Caused by: |\[cause\]: )?(?:(?P<told>Suppressed: |Uncaught (?:\(in promise\) )?)"
    r'|Exception in thread "[^"]*+" )?'
    r"\[?(?P<error>(?P<name>[^\W\d][\w.$]*+)(?::.*| \[.*|))"
)
_KINDS = ("Error", "Exception", "Throwable")
_SUPPRESSED = "Suppressed: "
_NEAR = 25
"""Lines between an error and its frames: its message may have several."""
_NO_FILE = frozenset({"<anonymous>", "native", "native code", "unknown location"})
_NO_SOURCE = frozenset({"Native Method", "Unknown Source"})
_FUNCTION_CHARS = 200
_SIGNS_OF_A_FILE = frozenset("/\\.:")


@dataclass(frozen=True, slots=True)
class Call:
    """One line of a trace; without a frame where it names no file."""

    language: Language
    frame: Frame | None = None


class CallReader:
    def __init__(self, drafts: Drafts) -> None:
        self._drafts = drafts
        self._draft: Draft | None = None
        self._last: Draft | None = None
        self._error: re.Match[str] | None = None
        self._before = ""
        self._since = 0
        self._headline: Frame | None = None

    def take(self, line: str) -> bool:
        text = line.strip()
        call = java_call(text) or v8_call(text) or gecko_call(text)
        if call is not None:
            self._add(call)
            return True
        if self._draft is not None and text.startswith("... "):  # `... 12 more`
            return True
        self._draft = None
        self._since += 1
        found = _ERROR.fullmatch(text)
        if found and (found["link"] or found["told"] or found["name"].endswith(_KINDS)):
            self._error, self._since = found, 0
        elif text:
            self._before = text
            self._remember_headline(text)
        return False

    def _add(self, call: Call) -> None:
        draft = self._draft
        if draft is None or draft.language != call.language:
            draft = self._draft = self._open(call.language)
        if call.frame is not None:
            draft.add(call.frame)

    def _open(self, language: Language) -> Draft:
        error = self._error if self._since <= _NEAR else None
        if error is None:
            draft = self._drafts.open(language, self._before)
        else:
            text = error["error"].removesuffix(" {")
            causes = self._last if error["link"] else None
            draft = self._drafts.open(language, text, causes=causes)
            # What the parser stumbled over is in no frame: node tells it above the error.
            if text.startswith("SyntaxError") and self._headline is not None:
                draft.add(self._headline)
        if error is None or error["told"] != _SUPPRESSED:
            self._last = draft
        self._error = self._headline = None
        self._before = ""
        return draft

    def _remember_headline(self, text: str) -> None:
        where = place(text)
        if where is not None and not where.column and language_of(where.file) == "javascript":
            self._headline = where.frame()


def java_call(text: str) -> Call | None:
    """`at java.base/com.acme.Foo$Bar.run(Foo.java:12) ~[app.jar:?]`"""
    if not text.startswith("at "):
        return None
    method, opened, rest = text[3:].partition("(")
    inside, closed, _ = rest.partition(")")
    if not opened or not closed or " " in method or "." not in method:
        return None
    if inside in _NO_SOURCE:
        return Call("java")
    where = place(inside)
    if language_of(where.file if where else inside) != "java" or "/" in inside:
        return None
    if where is None:
        return Call("java")
    method = method.rpartition("/")[2]
    package = method.rpartition(".")[0].rpartition(".")[0]
    folder = f"{package.replace('.', '/')}/" if package else ""
    return Call("java", Frame(folder + where.file, where.line, 0, method))


def v8_call(text: str) -> Call | None:
    """`at async Cart.pay (/app/cart.js:18:17)`, `at file:///app/main.mjs:4:1`"""
    if not text.startswith("at "):
        return None
    body = text[3:].rstrip(" {,").removeprefix("async ")
    function, inside = "", body
    if body.endswith(")") and " (" in body:
        function, _, inside = body[:-1].partition(" (")
    if inside.startswith("eval at "):  # the innermost is where the text came from
        inside = inside.rpartition("(")[2].partition(")")[0]
    where = place(inside)
    if where is not None and where.column and _SIGNS_OF_A_FILE.intersection(where.file):
        return Call("javascript", where.frame(function.partition(" [as ")[0]))
    if function and (inside in _NO_FILE or inside.startswith("index ")):
        return Call("javascript")
    return None


def gecko_call(text: str) -> Call | None:
    """Firefox and Safari: `pay@http://localhost:3000/cart.js:18:17`, `map@[native code]`"""
    function, at, rest = text.partition("@")
    if not at or len(function) > _FUNCTION_CHARS:
        return None
    if rest == "[native code]":
        return Call("javascript")
    where = place(rest)
    if where is None or not where.column or " " in rest or not (rest.startswith("/") or "://" in rest):
        return None
    return Call("javascript", where.frame(function.rpartition("*")[2].removesuffix("/<")))
