"""One memory of mem0: separates text, session and metadata of a payload as mem0 does. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, cast
from uuid import UUID

SESSION_KEYS = ("user_id", "agent_id", "run_id", "actor_id", "role")
_OWN_KEYS = frozenset({"data", "hash", "created_at", "updated_at", "id", "text_lemmatized", *SESSION_KEYS})
_MOST_VALUES = 1_000
_MOST_DEPTH = 20


@dataclass(frozen=True, slots=True)
class Mem0Memory:
    """One memory as mem0 stores it."""

    id: str
    text: str
    hash: str
    created: str
    updated: str
    session: Mapping[str, str]
    """The owner: `user_id`, `agent_id`, `run_id`, `actor_id`, `role`, as far as they are set."""
    metadata: Mapping[str, Any]


def parse_record(identity: object, payload: object) -> Mem0Memory | None:
    """Returns the memory; None if the payload is not a mapping with a text."""
    if not isinstance(payload, dict) or not isinstance(identity, str | int | UUID):
        return None
    known = cast("dict[object, object]", payload)
    text = known.get("data")
    if not isinstance(text, str) or not text.strip():
        return None
    budget = [_MOST_VALUES]
    metadata = {
        str(key): json_value(value, budget)
        for key, value in known.items()
        if key not in _OWN_KEYS and value is not None
    }
    session = {
        key: str(value) for key in SESSION_KEYS if isinstance(value := known.get(key), str | int) and value != ""
    }
    created = _time_text(known.get("created_at"))
    return Mem0Memory(
        id=str(identity),
        text=text,
        hash=str(known.get("hash") or ""),
        created=created,
        updated=_time_text(known.get("updated_at")) or created,
        session=session,
        metadata=metadata,
    )


def json_value(value: object, budget: list[int], depth: int = 0) -> Any:
    """Converts a value to JSON types: what JSON cannot express becomes text.

    Depth and size are limited, also for values that contain themselves.
    """
    budget[0] -= 1
    if budget[0] < 0 or depth > _MOST_DEPTH:
        return None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)  # JSON has neither infinity nor NaN
    if isinstance(value, dict):
        items = cast("dict[object, object]", value).items()
        return {str(key): json_value(item, budget, depth + 1) for key, item in items if budget[0] > 0}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_value(item, budget, depth + 1) for item in cast("list[object]", value) if budget[0] > 0]
    return _time_text(value) or (str(value) if isinstance(value, UUID) else None)


def _time_text(value: object) -> str:
    if isinstance(value, datetime | date):
        return value.isoformat()
    return value if isinstance(value, str) else ""
