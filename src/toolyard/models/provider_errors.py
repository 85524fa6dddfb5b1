"""Reads provider errors: a short message without secrets, and the requested waiting time."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from toolyard.models.endpoint import ModelEndpoint

_MOST_QUOTED = 300
"""Characters."""
_MOST_READ = 4_000
"""Characters that are searched for secrets; the rest of a longer text is never quoted."""
_LONGEST_WAIT = 86_400.0
_SECONDS = re.compile(r"^\d+(?:\.\d+)?$")
_DELAY = re.compile(r"^(\d+(?:\.\d+)?)s$")


def provider_message(error: Any, endpoint: ModelEndpoint) -> str:
    """Returns the provider's own message on one line, without the key, even if the end of the key is cut off."""
    text = _extract_message(getattr(error, "body", None)) or str(getattr(error, "message", error))
    text = endpoint.mask_secrets(" ".join(text[:_MOST_READ].split()))
    return text if len(text) <= _MOST_QUOTED else f"{text[: _MOST_QUOTED - 1]}…"


def full_error_text(error: Any) -> str:
    """Returns message and body for searching, not for display: the message may not name the refused setting."""
    return f"{getattr(error, 'message', error)} {getattr(error, 'body', '')}"[:_MOST_READ]


def retry_after_seconds(error: Any) -> float | None:
    """Returns the seconds to wait, one day at most; None if the provider names no valid number."""
    seconds = _raw_retry_after(error)
    if seconds is None or math.isnan(seconds) or seconds < 0:
        return None
    return min(seconds, _LONGEST_WAIT)


def _raw_retry_after(error: Any) -> float | None:
    if error.retry_after is not None:  # the library parses whole seconds, milliseconds and dates
        return float(error.retry_after)
    headers = cast("dict[str, str]", error.headers or {})
    if _SECONDS.match(headers.get("retry-after", "")):
        return float(headers["retry-after"])
    for detail in _google_error_details(error.body):
        found = _DELAY.match(str(detail.get("retryDelay", "")))
        if found:
            return float(found[1])
    return None


def is_daily_quota(body: object) -> bool:
    """Whether a daily quota of Google is exhausted."""
    return any("PerDay" in str(detail.get("violations", "")) for detail in _google_error_details(body))


def _extract_message(body: object) -> str:
    if isinstance(body, str):
        return body
    if not isinstance(body, dict):
        return ""
    known = cast("dict[str, Any]", body)
    inner = known.get("error")
    if inner is not None:
        return _extract_message(inner)
    message = known.get("message") or known.get("detail")
    return message if isinstance(message, str) else ""


def _google_error_details(body: object) -> Iterator[dict[str, Any]]:
    """Yields the details that Google sends beside the message."""
    inner = cast("dict[str, Any]", body).get("error") if isinstance(body, dict) else None
    details = cast("dict[str, Any]", inner).get("details") if isinstance(inner, dict) else None
    for detail in cast("list[Any]", details) if isinstance(details, list) else ():
        if isinstance(detail, dict):
            yield cast("dict[str, Any]", detail)
