"""`learned_patterns.md`: what worked, one heading each. Sections are added at its end, nothing is moved."""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolyard.workspace.clock import now
from toolyard.workspace.documents import text_of
from toolyard.workspace.memory.facts import check_text

TITLE = "# Learned patterns\n"
_MOST_TITLE, _MOST_TEXT = 200, 20_000
_HEADING = re.compile(r"^## +(.+?) *#* *$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Pattern:
    title: str
    text: str


def parse(data: bytes) -> str:
    return text_of(data)


def write(text: str, _: bytes) -> bytes:
    return text.encode("utf-8", "replace")


def noted(text: str, pattern: Pattern) -> str:
    title = " ".join(pattern.title.split())
    check_text("title", title, _MOST_TITLE)
    check_text("text", pattern.text, _MOST_TEXT)
    begun = text if text.strip() else TITLE
    return f"{begun.rstrip(chr(10))}\n\n## {title}\n\n_{now()}_\n\n{pattern.text.strip()}\n"


def patterns_in(text: str) -> list[Pattern]:
    """The sections of the page. What stands before the first heading is none."""
    found = list(_HEADING.finditer(text))
    ends = [*(match.start() for match in found), len(text)][1:]
    return [Pattern(match[1], text[match.end() : end].strip()) for match, end in zip(found, ends, strict=True)]
