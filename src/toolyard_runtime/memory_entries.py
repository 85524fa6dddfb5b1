"""What stands in the files of a memory: their names, how large they may be, and the form of an entry. Pure.

The host and the code in its sandbox write the same files, so both take it from here.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FACTS, HISTORY = "core_memories.json", "task_history.json"
PATTERNS, PREFERENCES = "learned_patterns.md", "preferences.yaml"
FILE_BYTES = 8 << 20
"""The largest of them. Together with its form in memory it has to be read in a moment."""
MOST_FACTS = 20_000
MOST_TASKS = 10_000
"""The oldest make room: a history that cannot grow would stop the agent's work."""
MOST_TEXT = 20_000
MOST_METADATA = 20_000
MOST_TOPIC = 200
MOST_TITLE = 200
_PAGE = "# Learned patterns\n"
_HEADING = re.compile(r"^## +(.+?) *#* *$", re.MULTILINE)
_DIGEST_BYTES = 6


def utc_timestamp() -> str:
    """To the second, in universal time: `2026-01-31T10:00:00+00:00`."""
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat(timespec="seconds")


def entry_field(entry: object, key: str) -> Any:
    """A value of an entry; None where there is none, or where the entry is no object."""
    return entry.get(key) if isinstance(entry, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def fact_id(entry: object) -> str:
    """A fact's id. One that somebody else wrote may have none: then it is made of its content."""
    given = entry_field(entry, "id")
    if isinstance(given, str) and given:
        return given
    import hashlib
    import json

    text = json.dumps(entry, sort_keys=True)
    return "x" + hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def text_of_fact(entry: object) -> str:
    """What a fact says; the whole entry where it has no `text`."""
    if isinstance(entry, str):
        return entry
    text = entry_field(entry, "text")
    if isinstance(text, str):
        return text
    import json

    return json.dumps(entry, ensure_ascii=False)


def topic_of(entry: object) -> str:
    topic = entry_field(entry, "topic")
    return topic if isinstance(topic, str) else ""


def page_with_pattern(page: str, title: str, text: str) -> str:
    """The page of patterns with one more at its end."""
    begun = page if page.strip() else _PAGE
    return f"{begun.rstrip(chr(10))}\n\n## {title}\n\n_{utc_timestamp()}_\n\n{text.strip()}\n"


def patterns_in(page: str) -> list[tuple[str, str]]:
    """The sections of the page, as title and text. What stands before the first heading is none."""
    found = list(_HEADING.finditer(page))
    ends = [*(match.start() for match in found), len(page)][1:]
    return [(match[1], page[match.end() : end].strip()) for match, end in zip(found, ends, strict=True)]
