"""Modification times as clients and their models write them: seconds since 1970, or ISO 8601 with a time zone."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BeforeValidator, Field

_MAX_SECONDS = 1e12


def refuse_bool(value: object) -> object:
    """Refuses booleans as numbers: pydantic accepts `true` as 1."""
    if isinstance(value, bool):
        raise ValueError("Input should be a number")  # noqa: TRY004 - pydantic does not report a TypeError
    return value


def _parse_time(value: object) -> object:
    """Converts an ISO time to seconds. A time without a zone is ambiguous by up to 26 hours and counts as unknown."""
    if not isinstance(value, str):
        return value
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return value  # the next validator refuses it as the wrong type
    return time.timestamp() if time.tzinfo is not None else None


Timestamp = Annotated[
    Annotated[float, Field(gt=-_MAX_SECONDS, lt=_MAX_SECONDS)] | None,
    BeforeValidator(_parse_time),
    BeforeValidator(refuse_bool),
]
