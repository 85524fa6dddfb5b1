"""The files of a memory: their names, sizes and the form of an entry. Pure.

The host and the code in its sandbox write the same files, so both use this module.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FACTS, HISTORY = "core_memories.json", "task_history.json"
PATTERNS, PREFERENCES = "learned_patterns.md", "preferences.yaml"
FILE_BYTES = 8 << 20
"""The maximum size of each file: it must be fast to read and parse."""
MOST_FACTS = 20_000
MOST_TASKS = 10_000
"""The oldest are dropped: a full history must not stop the agent's work."""
MOST_TEXT = 20_000
MOST_METADATA = 20_000
MOST_TOPIC = 200
MOST_TITLE = 200
_PAGE = "# Learned patterns\n"
_HEADING = re.compile(r"^## +(.+?) *#* *$", re.MULTILINE)
_DIGEST_BYTES = 6


def utc_timestamp() -> str:
    """Returns the current time to the second in UTC: `2026-01-31T10:00:00+00:00`."""
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat(timespec="seconds")


def entry_field(entry: object, key: str) -> Any:
    """Returns a value of an entry; None if it is missing or the entry is not an object."""
    return entry.get(key) if isinstance(entry, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def fact_id(entry: object) -> str:
    """Returns a fact's id. An entry without one, written by another program, gets an id from its content."""
    given = entry_field(entry, "id")
    if isinstance(given, str) and given:
        return given
    import hashlib
    import json

    text = json.dumps(entry, sort_keys=True)
    return "x" + hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def text_of_fact(entry: object) -> str:
    """Returns the text of a fact; the whole entry as JSON if it has no `text`."""
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
    """Returns the page of patterns with one more at its end."""
    begun = page if page.strip() else _PAGE
    return f"{begun.rstrip(chr(10))}\n\n## {title}\n\n_{utc_timestamp()}_\n\n{text.strip()}\n"


def patterns_in(page: str) -> list[tuple[str, str]]:
    """Returns the sections of the page, as title and text. Text before the first heading does not count."""
    found = list(_HEADING.finditer(page))
    ends = [*(match.start() for match in found), len(page)][1:]
    return [(match[1], page[match.end() : end].strip()) for match, end in zip(found, ends, strict=True)]
