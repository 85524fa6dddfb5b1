"""Embeds untrusted schema text in generated files: as a literal, docstring, comment or Markdown line.

Each function prevents the text from being interpreted as anything else.
"""

from __future__ import annotations

import ast
import re
from typing import Any

_SIMPLE = re.compile(r"[ !#-\[\]-~]*")
"""Printable ASCII without quotes and backslashes: such a text needs no escapes in a literal."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNUSUAL_CHARACTER = re.compile(r"[^\n -~]")
_LINE_ENDS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_BLANKS = re.compile(r"[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_LOOSE_QUOTE = re.compile(r'"(?="|\Z)')
"""A quote before another one, or at the end: those could close a docstring."""
_TRAILING = re.compile(r" +$", re.MULTILINE)
_TAB = 4


def python_literal(value: Any) -> str | None:
    """Returns a scalar as a Python literal with exactly this value, or None (NaN, containers)."""
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
    """Returns the text with uniform line ends and spaces, without trailing spaces."""
    if not text.isascii() or "\r" in text or "\x0b" in text or "\x0c" in text:
        text = _BLANKS.sub(" ", _LINE_ENDS.sub("\n", text))
    return _TRAILING.sub("", text.expandtabs(_TAB)).strip()


def render_docstring(text: str, indent: str = "    ") -> str:
    """Returns a docstring with this text, which must be normalised."""
    # Since Python 3.13, a docstring with a lone surrogate does not compile.
    text = _SURROGATE.sub(_escape_character, text)
    escaped = _escape_invisible(_LOOSE_QUOTE.sub(r"\"", text.replace("\\", "\\\\")))
    if "\n" in escaped:
        lines = escaped.split("\n")
        body = "\n".join([lines[0], *(f"{indent}{line}" if line else "" for line in lines[1:])])
        return f'{indent}"""{body}\n{indent}"""'
    return f'{indent}"""{escaped}"""'


def render_comment(text: str) -> str:
    """Returns the text as one line without line ends."""
    return _escape_invisible(" ".join(normalize_text(text).split()))


def render_markdown(text: str) -> str:
    """Returns the text as one line of Markdown without headings, links or HTML."""
    return render_comment(text).replace("`", "'").replace("<", "&lt;").replace("[", "\\[")


def clip_text(text: str, longest: int) -> str:
    """Shortens a text to `longest` characters, with an ellipsis."""
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"


def _escape_invisible(text: str) -> str:
    """Escapes control characters, direction marks and lone surrogates, to make them visible."""
    return text if text.isascii() and text.isprintable() else _UNUSUAL_CHARACTER.sub(_escape_character, text)


def _escape_character(found: re.Match[str]) -> str:
    sign = found[0]
    return sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")
