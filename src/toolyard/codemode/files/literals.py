"""The only ways that text of a schema gets into a file: as a literal, in a docstring, in a comment, on a line of
Markdown. Each keeps it from being anything else.
"""

from __future__ import annotations

import ast
import re
from typing import Any

_SIMPLE = re.compile(r"[ !#-\[\]-~]*")
"""Printable ASCII without a quote or a backslash: such a text is its own literal."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNUSUAL_CHARACTER = re.compile(r"[^\n -~]")
_LINE_ENDS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_BLANKS = re.compile(r"[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_LOOSE_QUOTE = re.compile(r'"(?="|\Z)')
"""A quote before another one, or the last sign: those could close a docstring."""
_TRAILING = re.compile(r" +$", re.MULTILINE)
_TAB = 4


def python_literal(value: Any) -> str | None:
    """A scalar as Python text that means exactly this value, or None where there is none (NaN, a container)."""
    if isinstance(value, str) and _SIMPLE.fullmatch(value):
        return f'"{value}"'
    if not isinstance(value, (str, int, float, bool, type(None))):
        return None
    try:
        text = repr(value)
        read = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return text if type(read) is type(value) and read == value else None


def normalize_text(text: str) -> str:
    """The same text with one kind of line end and one kind of blank, and nothing at the ends of its lines."""
    if not text.isascii() or "\r" in text or "\x0b" in text or "\x0c" in text:
        text = _BLANKS.sub(" ", _LINE_ENDS.sub("\n", text))
    return _TRAILING.sub("", text.expandtabs(_TAB)).strip()


def render_docstring(text: str, indent: str = "    ") -> str:
    """A docstring of this text, which must be tidy."""
    # As text: a docstring that holds a lone surrogate does not compile from Python 3.13 on.
    text = _SURROGATE.sub(_escape_character, text)
    escaped = _escape_invisible(_LOOSE_QUOTE.sub(r"\"", text.replace("\\", "\\\\")))
    if "\n" in escaped:
        lines = escaped.split("\n")
        body = "\n".join([lines[0], *(f"{indent}{line}" if line else "" for line in lines[1:])])
        return f'{indent}"""{body}\n{indent}"""'
    return f'{indent}"""{escaped}"""'


def render_comment(text: str) -> str:
    """One line that cannot end early."""
    return _escape_invisible(" ".join(normalize_text(text).split()))


def render_markdown(text: str) -> str:
    """One line of Markdown that starts no heading, link or page of HTML of its own."""
    return render_comment(text).replace("`", "'").replace("<", "&lt;").replace("[", "\\[")


def clip_text(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"


def _escape_invisible(text: str) -> str:
    """Control characters, marks of direction and lone surrogates as escapes, which is how they can be seen."""
    return text if text.isascii() and text.isprintable() else _UNUSUAL_CHARACTER.sub(_escape_character, text)


def _escape_character(found: re.Match[str]) -> str:
    sign = found[0]
    return sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")
