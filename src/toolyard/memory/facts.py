"""`core_memories.json`: long-term facts, a JSON list.

Entries that Toolyard writes are `{"topic"?, "id", "text", "created", "updated"?, "source"?, "metadata"?}`. Entries in
another form (a bare string, an object with other keys) are facts too and stay unchanged. Their id is derived from
their content.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from toolyard.core.errors import ToolError, ValidationError
from toolyard.core.ids import new_id
from toolyard.files.timestamps import utc_timestamp
from toolyard_runtime import memory_entries
from toolyard_runtime.memory_entries import MOST_FACTS, MOST_METADATA, MOST_TEXT, MOST_TOPIC

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fact:
    """One entry of the file."""

    entry: Any

    @property
    def id(self) -> str:
        return memory_entries.fact_id(self.entry)

    @property
    def text(self) -> str:
        """The text of the fact; the whole entry if it has no `text`."""
        return memory_entries.text_of_fact(self.entry)

    @property
    def topic(self) -> str:
        return self._get_text("topic")

    @property
    def created_at(self) -> str:
        return self._get_text("created")

    @property
    def updated_at(self) -> str:
        return self._get_text("updated") or self.created_at

    @property
    def metadata(self) -> Mapping[str, Any]:
        return self._get_mapping("metadata")

    @property
    def source(self) -> Mapping[str, Any]:
        """Where the fact was imported from: `from`, `id` and further fields; empty if it was not imported."""
        return self._get_mapping("source")

    def _get(self, key: str) -> Any:
        return cast("Entry", self.entry).get(key) if isinstance(self.entry, dict) else None

    def _get_text(self, key: str) -> str:
        value = self._get(key)
        return value if isinstance(value, str) else ""

    def _get_mapping(self, key: str) -> Mapping[str, Any]:
        value = self._get(key)
        return cast("Entry", value) if isinstance(value, dict) else {}


def new_entry(
    text: str,
    topic: str = "",
    metadata: Mapping[str, Any] | None = None,
    *,
    identity: str = "",
    created: str = "",
    updated: str = "",
    source: Mapping[str, Any] | None = None,
) -> Entry:
    """Builds a checked entry. Raises ValidationError for a text, a topic or metadata that cannot be stored."""
    check_text("text", text, MOST_TEXT)
    entry: Entry = {}
    if topic:
        check_text("topic", topic, MOST_TOPIC)
        entry["topic"] = topic
    entry |= {"id": identity or new_id(), "text": text, "created": created or utc_timestamp()}
    if updated and updated != entry["created"]:
        entry["updated"] = updated
    if source:
        entry["source"] = dict(source)
    if metadata:
        entry["metadata"] = _json_copy(metadata)
    return entry


def add_entries(entries: list[Any], new: Iterable[Entry]) -> list[Any]:
    """Returns the entries with the new ones appended. Raises ToolError if there would be too many."""
    result = [*entries, *new]
    if len(result) > MOST_FACTS:
        raise ToolError(
            f"A memory holds at most {MOST_FACTS:,} facts; this would make {len(result):,}.",
            hint="Forget facts that are not needed.",
        )
    return result


def check_text(field: str, text: str, most: int) -> None:
    if not text.strip() or len(text) > most:
        raise ValidationError.of(field, f"has to be 1 to {most:,} characters", hint="Use a few sentences.")


def _json_copy(metadata: Mapping[str, Any]) -> Entry:
    try:
        text = json.dumps(dict(metadata), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValidationError.of(
            "metadata", f"is not JSON: {error}", hint="Use text, numbers, lists, objects."
        ) from None
    if len(text) > MOST_METADATA:
        raise ValidationError.of("metadata", f"has more than {MOST_METADATA:,} characters", hint="Keep it short.")
    return json.loads(text)
