"""What a provider said with an error: its words, short and without secrets, and how long it asks to wait."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from toolyard.models.endpoint import Place

_MOST_QUOTED = 300
"""Characters."""
_MOST_READ = 4_000
"""Characters that are looked through for secrets: of a longer text the rest is not quoted anyway."""
_LONGEST_WAIT = 86_400.0
_SECONDS = re.compile(r"^\d+(?:\.\d+)?$")
_DELAY = re.compile(r"^(\d+(?:\.\d+)?)s$")


def said(error: Any, place: Place) -> str:
    """The provider's own words: on one line, and without the key, also where the end of it was cut off."""
    text = _message(getattr(error, "body", None)) or str(getattr(error, "message", error))
    text = place.masked(" ".join(text[:_MOST_READ].split()))
    return text if len(text) <= _MOST_QUOTED else f"{text[: _MOST_QUOTED - 1]}…"


def everything_said(error: Any) -> str:
    """To be looked through, not to be shown: which setting is meant is not always in the message."""
    return f"{getattr(error, 'message', error)} {getattr(error, 'body', '')}"[:_MOST_READ]


def asked_to_wait(error: Any) -> float | None:
    """Seconds, a day at most; None where nothing is said of it, or nothing that can be."""
    seconds = _said_of_waiting(error)
    if seconds is None or math.isnan(seconds) or seconds < 0:
        return None
    return min(seconds, _LONGEST_WAIT)


def _said_of_waiting(error: Any) -> float | None:
    if error.retry_after is not None:  # the library reads whole seconds, milliseconds and dates
        return float(error.retry_after)
    headers = cast("dict[str, str]", error.headers or {})
    if _SECONDS.match(headers.get("retry-after", "")):
        return float(headers["retry-after"])
    for detail in _details(error.body):
        found = _DELAY.match(str(detail.get("retryDelay", "")))
        if found:
            return float(found[1])
    return None


def is_daily(body: object) -> bool:
    """Whether a quota of Google's is meant that is filled again tomorrow."""
    return any("PerDay" in str(detail.get("violations", "")) for detail in _details(body))


def _message(body: object) -> str:
    if isinstance(body, str):
        return body
    if not isinstance(body, dict):
        return ""
    known = cast("dict[str, Any]", body)
    inner = known.get("error")
    if inner is not None:
        return _message(inner)
    told = known.get("message") or known.get("detail")
    return told if isinstance(told, str) else ""


def _details(body: object) -> Iterator[dict[str, Any]]:
    """What Google says beside the message."""
    inner = cast("dict[str, Any]", body).get("error") if isinstance(body, dict) else None
    details = cast("dict[str, Any]", inner).get("details") if isinstance(inner, dict) else None
    for detail in cast("list[Any]", details) if isinstance(details, list) else ():
        if isinstance(detail, dict):
            yield cast("dict[str, Any]", detail)
