"""When a file was changed, as clients and their models write it: seconds since 1970, or ISO 8601 with a time zone."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BeforeValidator, Field

_MAX_SECONDS = 1e12


def refuse_bool(value: object) -> object:
    """For numbers: pydantic takes `true` for 1."""
    if isinstance(value, bool):
        raise ValueError("Input should be a number")  # noqa: TRY004 - pydantic reports no TypeError
    return value


def _parse_time(value: object) -> object:
    """Seconds of an ISO time. A time without a zone could be any of 26 hours, so it counts as unknown."""
    if not isinstance(value, str):
        return value
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return value  # which is refused as the wrong type
    return time.timestamp() if time.tzinfo is not None else None


Timestamp = Annotated[
    Annotated[float, Field(gt=-_MAX_SECONDS, lt=_MAX_SECONDS)] | None,
    BeforeValidator(_parse_time),
    BeforeValidator(refuse_bool),
]
