"""Formats text for people: escaping of control characters."""

from __future__ import annotations


def printable(text: str) -> str:
    """`text` with everything escaped that a terminal would act on or not show."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
