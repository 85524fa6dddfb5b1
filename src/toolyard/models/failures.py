"""What went wrong between us and a provider, as an error of ours, and whether it may pass.

Providers and their SDKs say the same thing in many ways; pydantic-ai sorts most of it. What remains is told apart
here: errors that pass with time, a history that is too long, and everything that stays wrong until somebody acts.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from toolyard.core.errors import ConfigError, SystemFault, ToolyardError

if TYPE_CHECKING:
    from toolyard.models.places import Place

_PASSING_STATUSES = frozenset({408, 409, 425, 429, *range(500, 600)}) - {501, 505}
_TOO_LONG = re.compile(
    r"context.{0,20}(length|size|window|limit)|exceed_context|prompt is too long|input is too long"
    r"|too many (input )?tokens|input token count|request_too_large|maximum context",
    re.IGNORECASE,
)
_NO_PICTURES = re.compile(r"image|multimodal|mmproj|vision", re.IGNORECASE)
_MOST_QUOTED = 300
"""Characters of what the provider said."""
_SECONDS = re.compile(r"^\d+(?:\.\d+)?$")
_DELAY = re.compile(r"^(\d+(?:\.\d+)?)s$")


@dataclass(frozen=True, slots=True)
class Failure:
    error: ToolyardError
    why: str
    """In a few words, for who waits."""
    passes: bool = False
    """Whether the same request may succeed later."""
    is_unreachable: bool = False
    """Whether there was not even a connection."""
    is_too_long: bool = False
    is_about_pictures: bool = False
    """Whether the provider seems to refuse pictures."""
    after: float | None = None
    """Seconds that the provider asks to wait."""


def failure_of(error: Exception, place: Place) -> Failure:
    """`error` is whatever the library raised."""
    from pydantic_ai import exceptions

    from toolyard.models.bounding import TooMuch

    if any(isinstance(each, TooMuch) for each in _causes(error)):
        return _too_much(place)
    if isinstance(error, exceptions.ModelHTTPError):
        return _refused(error, place)
    if isinstance(error, exceptions.ModelContextWindowExceededError):
        return too_long(place)
    if isinstance(error, exceptions.ModelQuotaExceededError):
        return Failure(_exhausted(place, _said(error, place)), "the quota is used up")
    timeouts = (exceptions.ModelTimeoutError, exceptions.ModelRequestTimeout)
    if isinstance(error, timeouts) and not _is_connecting(error):
        return _passing(place, "did not answer in time", "A longer `backend.timeout` may help.")
    if isinstance(error, exceptions.ModelConnectionError):
        return _unreachable(error, place)
    if isinstance(error, exceptions.UserError):  # what is asked of the library cannot be, for this model
        return Failure(SystemFault(f"{place.model} cannot be asked so: {_said(error, place)}"), "cannot be asked")
    if isinstance(error, exceptions.ModelRequestRejectedError):
        return _rejected(place, _said(error, place))
    if isinstance(error, exceptions.ModelAPIError):
        return _passing(place, f"failed in the middle of an answer ({_said(error, place)})")
    return cut_short(place)


def cut_short(place: Place) -> Failure:
    return _passing(place, "ended an answer in the middle")


def misunderstood(place: Place) -> Failure:
    return _passing(place, "sent something that cannot be understood", "Check that `backend.base_url` is its API.")


def too_long(place: Place) -> Failure:
    return Failure(
        SystemFault(
            f"The conversation does not fit the context of {place.model}, and nothing more can be left out of it.",
            hint="Use a model with a larger context, or offer it fewer tools.",
        ),
        "the conversation is too long",
        is_too_long=True,
    )


def _refused(error: Any, place: Place) -> Failure:
    from pydantic_ai import exceptions

    status, said = cast("int", error.status_code), _said(error, place)
    if isinstance(error, exceptions.ModelQuotaExceededError) or _is_daily(error.body):
        return Failure(_exhausted(place, said), "the quota is used up")
    if isinstance(error, exceptions.ModelContextWindowExceededError) or status == 413 or _is_length(status, said):
        return too_long(place)
    if isinstance(error, exceptions.ModelAuthenticationError) or status in (401, 403):
        return Failure(_not_let_in(place, status, said), "the key was refused")
    if isinstance(error, exceptions.ModelNotFoundError):
        if _NO_PICTURES.search(said):
            return _rejected(place, said, status)
        return Failure(_unknown_model(place, error, said), "the model is not known")
    passes = status in _PASSING_STATUSES and error.provider_retry_hint is not False
    if not passes:
        return _rejected(place, said, status)
    why = _in_words(status)
    return Failure(
        SystemFault(f"{place.kind.title} {why} ({status}: {said})", hint="Try again later.", retryable=True),
        f"{place.kind.title} {why} ({status})",
        passes=True,
        is_about_pictures=status == 500 and bool(_NO_PICTURES.search(said)),
        after=_asked_to_wait(error),
    )


def _in_words(status: int) -> str:
    if status == 429:
        return "takes no more requests for now"
    return "is overloaded" if status in (503, 529) else "failed"


def _too_much(place: Place) -> Failure:
    told = f"{place.kind.title} sent more than any answer can be"
    return Failure(SystemFault(f"{told}.", hint="Check that `backend.base_url` is its API."), told)


def _rejected(place: Place, said: str, status: int = 400) -> Failure:
    return Failure(
        SystemFault(
            f"{place.kind.title} refused the request to {place.model} ({status}: {said})",
            hint="Check the keys under `backend`: not every model takes every setting.",
        ),
        "the request was refused",
        is_about_pictures=bool(_NO_PICTURES.search(said)),
    )


def _not_let_in(place: Place, status: int, said: str) -> ToolyardError:
    if not place.key:
        names = " or ".join((*place.kind.key_variables, "`backend.api_key`"))
        return ConfigError(
            f"{place.kind.title} at {place.address} wants a key ({status}: {said})", hint=f"Set {names}."
        )
    return ConfigError(
        f"{place.kind.title} refused the key from {place.key_source} ({status}: {said})",
        hint="Check that it is whole, of this provider, and has access to the model.",
    )


def _unknown_model(place: Place, error: Any, said: str) -> ToolyardError:
    suggested = cast("str | None", error.suggested_model_id)
    meant = f' Did you mean "{suggested.partition(":")[2] or suggested}"?' if suggested else ""
    listing = (
        f"{place.address}/models" if place.kind.api == "openai" else f"the models of your {place.kind.title} account"
    )
    return ConfigError(
        f'{place.kind.title} at {place.address} knows no model "{place.model}" (404: {said})',
        hint=f"Set `backend.model` to one that it has: see {listing}, or check `backend.base_url`.{meant}",
    )


def _exhausted(place: Place, said: str) -> ToolyardError:
    return SystemFault(
        f"The quota or the credit at {place.kind.title} is used up ({said})",
        hint="Look at the account's limits and billing, or use another backend.",
    )


def _unreachable(error: Exception, place: Place) -> Failure:
    causes = list(_causes(error))
    if any(isinstance(each, ssl.SSLCertVerificationError) for each in causes):
        return Failure(
            SystemFault(
                f"{place.address} shows a certificate that is not trusted.",
                hint="Check `backend.base_url`; a server of your own may be reached by http.",
            ),
            "its certificate is not trusted",
        )
    if any(isinstance(each, ConnectionRefusedError) for each in causes) or _is_connecting(error):
        return _not_there(place)
    return _passing(place, f"broke off the connection to {place.address}")


def _not_there(place: Place) -> Failure:
    """Whoever waits is told what to look at: nothing else may ever come of the waiting."""
    told = f"{place.kind.title} cannot be reached at {place.address}"
    question = "Is it running?" if place.is_loopback else "Is it up, and is there a network?"
    check = "Check `backend.base_url`"
    return Failure(
        SystemFault(f"{told}.", hint=f"{question} {check}.", retryable=True),
        f"{told}: {question[0].lower()}{question[1:]} {check}",
        passes=True,
        is_unreachable=True,
    )


def _is_connecting(error: Exception) -> bool:
    return getattr(error, "phase", None) == "connect"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _passing(place: Place, what: str, hint: str = "Try again later.") -> Failure:
    told = f"{place.kind.title} {what}"
    return Failure(SystemFault(f"{told}.", hint=hint, retryable=True), told, passes=True)


def _said(error: Any, place: Place) -> str:
    """The provider's own words: short, on one line, and without the key."""
    text = _message(getattr(error, "body", None)) or str(getattr(error, "message", error))
    text = place.masked(" ".join(text.split()))
    return text if len(text) <= _MOST_QUOTED else f"{text[: _MOST_QUOTED - 1]}…"


def _message(body: object) -> str:
    if isinstance(body, str):
        return body
    if not isinstance(body, dict):
        return ""
    known = cast("dict[str, Any]", body)
    inner = known.get("error")
    if inner is not None:
        return _message(inner)
    said = known.get("message") or known.get("detail")
    return said if isinstance(said, str) else ""


def _is_length(status: int, said: str) -> bool:
    return status in (400, 422, 500) and bool(_TOO_LONG.search(said))


def _details(body: object) -> Iterator[dict[str, Any]]:
    """What Google says beside the message."""
    inner = cast("dict[str, Any]", body).get("error") if isinstance(body, dict) else None
    details = cast("dict[str, Any]", inner).get("details") if isinstance(inner, dict) else None
    for detail in cast("list[Any]", details) if isinstance(details, list) else ():
        if isinstance(detail, dict):
            yield cast("dict[str, Any]", detail)


def _asked_to_wait(error: Any) -> float | None:
    if error.retry_after is not None:
        return float(error.retry_after)
    headers = cast("dict[str, str]", error.headers or {})
    if _SECONDS.match(headers.get("retry-after", "")):  # with a part of a second, which the library does not read
        return float(headers["retry-after"])
    for detail in _details(error.body):
        found = _DELAY.match(str(detail.get("retryDelay", "")))
        if found:
            return float(found[1])
    return None


def _is_daily(body: object) -> bool:
    """Whether a quota of Google's is meant that is filled again tomorrow."""
    return any("PerDay" in str(detail.get("violations", "")) for detail in _details(body))
