"""`task_history.json`: finished tasks, oldest first, as a JSON list of `{"id", "description", "outcome" …}`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from toolyard.core.ids import new_id
from toolyard.files.timestamps import utc_timestamp
from toolyard.memory.facts import check_text
from toolyard_runtime.memory_entries import MOST_TASKS, MOST_TEXT


@dataclass(frozen=True, slots=True)
class PastTask:
    """One entry of the history."""

    entry: Any

    @property
    def id(self) -> str:
        return self._get_text("id")

    @property
    def description(self) -> str:
        return self.entry if isinstance(self.entry, str) else self._get_text("description")

    @property
    def outcome(self) -> str:
        return self._get_text("outcome")

    def _get_text(self, key: str) -> str:
        value = cast("dict[str, Any]", self.entry).get(key) if isinstance(self.entry, dict) else None
        return value if isinstance(value, str) else ""


def new_entry(description: str, outcome: str, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Builds a checked entry. `details` are further keys; of the standard keys they can set only `id`."""
    check_text("description", description, MOST_TEXT)
    check_text("outcome", outcome, MOST_TEXT)
    given = dict(details or {})
    identity = given.pop("id", None) or new_id()
    return {**given, "id": identity, "description": description, "outcome": outcome, "finished": utc_timestamp()}


def add_entry(entries: list[Any], entry: dict[str, Any]) -> list[Any]:
    """Returns the entries with the new one appended, unless its id is already there; the oldest are dropped."""
    if any(PastTask(known).id == entry["id"] for known in entries):
        return entries
    return [*entries, entry][-MOST_TASKS:]
