"""Formats text for people: escaping of control characters."""

from __future__ import annotations


def printable(text: str) -> str:
    """Returns `text` with every character escaped that a terminal would interpret or not show."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
