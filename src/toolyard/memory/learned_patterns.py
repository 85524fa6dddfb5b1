"""`learned_patterns.md`: what worked, one section each. New sections are appended; existing text never moves."""

from __future__ import annotations

from dataclasses import dataclass

from toolyard.files.locked_document import decode_text
from toolyard.memory.facts import check_text
from toolyard_runtime.memory_entries import MOST_TEXT, MOST_TITLE, page_with_pattern
from toolyard_runtime.memory_entries import patterns_in as sections


@dataclass(frozen=True, slots=True)
class Pattern:
    """One section of the page."""

    title: str
    text: str


def parse(data: bytes) -> str:
    return decode_text(data)


def serialize(text: str, _: bytes) -> bytes:
    return text.encode("utf-8", "replace")


def add_pattern(text: str, pattern: Pattern) -> str:
    """Returns the page with the pattern appended. Raises ValidationError for a title or text that is too long."""
    title = " ".join(pattern.title.split())
    check_text("title", title, MOST_TITLE)
    check_text("text", pattern.text, MOST_TEXT)
    return page_with_pattern(text, title, pattern.text)


def patterns_in(text: str) -> list[Pattern]:
    """Returns the sections of the page; text before the first heading is skipped."""
    return [Pattern(title, body) for title, body in sections(text)]
