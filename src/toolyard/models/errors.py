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

from toolyard.core.errors import Facts, ToolyardError
from toolyard.models.provider_errors import asked_to_wait, everything_said, is_daily, said

if TYPE_CHECKING:
    from toolyard.models.endpoint import Place

_PASSING_STATUSES = frozenset({408, 409, 425, 429, *range(500, 600)}) - {501, 505}
_TOO_LONG = re.compile(
    r"context.{0,20}(length|size|window|limit)|exceed_context|prompt is too long|input is too long"
    r"|too many (input )?tokens|input token count|request_too_large|maximum context",
    re.IGNORECASE,
)
_NO_PICTURES = re.compile(r"image|multimodal|mmproj|vision", re.IGNORECASE)
_ABOUT_THINKING = re.compile(r"thinking|reasoning|effort|budget", re.IGNORECASE)
_ABOUT_TEMPERATURE = re.compile(r"temperature|sampling", re.IGNORECASE)


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
    is_about_thinking: bool = False
    """Whether it seems to refuse being told how much to think."""
    is_about_temperature: bool = False
    comes_whole: bool = False
    """Whether answers come in one piece alone, and have to be asked for so."""
    after: float | None = None
    """Seconds that the provider asks to wait."""


def failure_of(error: Exception, place: Place) -> Failure:
    """`error` is whatever the library raised."""
    from pydantic_ai import exceptions

    from toolyard.models.response_limits import Packed, TooMuch, Whole

    causes = list(_causes(error))
    if any(isinstance(each, TooMuch) for each in causes):
        return _too_much(place)
    if any(isinstance(each, Packed) for each in causes):
        return _packed(place)
    if any(isinstance(each, Whole) for each in causes):
        told = f"{place.kind.title} does not send answers in pieces"
        return Failure(place.audience.failed(f"{told}.", hint=_check_address(place)), told, comes_whole=True)
    if isinstance(error, exceptions.ModelHTTPError):
        return _refused(error, place)
    if isinstance(error, exceptions.ModelContextWindowExceededError):
        return too_long(place)
    if isinstance(error, exceptions.ModelQuotaExceededError):
        return Failure(_exhausted(place, said(error, place)), "the quota is used up")
    timeouts = (exceptions.ModelTimeoutError, exceptions.ModelRequestTimeout)
    if isinstance(error, timeouts) and not _is_connecting(error):
        return _passing(place, "did not answer in time", f"A longer {place.audience.timeout} may help.")
    if isinstance(error, exceptions.ModelConnectionError):
        return _unreachable(error, place)
    if isinstance(error, exceptions.UserError):  # what is asked of the library cannot be, for this model
        told = f"{place.model} cannot be asked so: {said(error, place)}"
        return Failure(place.audience.failed(told), "cannot be asked")
    if isinstance(error, exceptions.ModelRequestRejectedError):
        return _rejected(place, said(error, place), error)
    if isinstance(error, exceptions.ModelAPIError):
        return _passing(place, f"failed in the middle of an answer ({said(error, place)})")
    return cut_short(place)


def cut_short(place: Place) -> Failure:
    return _passing(place, "ended an answer in the middle")


def misunderstood(place: Place) -> Failure:
    return _passing(place, "sent something that cannot be understood", _check_address(place))


def too_long(place: Place, facts: Facts | None = None) -> Failure:
    return Failure(
        place.audience.failed(
            f"The conversation does not fit the context of {place.model}, and nothing more can be left out of it.",
            hint=place.audience.less,
            facts=facts,
        ),
        "the conversation is too long",
        is_too_long=True,
    )


def withheld(place: Place) -> Failure:
    error = place.audience.failed(
        f"{place.kind.title} withheld the answer of {place.model}: its content filter stepped in.",
        hint="Say the task in other words, or use another model.",
    )
    return Failure(error, "the answer was withheld")


def empty(place: Place, finish_reason: str | None) -> Failure:
    if finish_reason == "length":
        error = place.audience.failed(
            f"{place.model} reached the limit of its answer before it said anything.", hint=place.audience.short
        )
    else:
        address = place.audience.address_of(place.kind)
        error = place.audience.failed(
            f"{place.model} gave empty answers only.",
            hint=f"Check that the model can use tools, and that {address} is where its API listens.",
            retryable=True,
        )
    return Failure(error, f"{place.model} gave an empty answer", passes=True)


def _refused(error: Any, place: Place) -> Failure:
    from pydantic_ai import exceptions

    status, words = cast("int", error.status_code), said(error, place)
    facts: Facts = {"provider_status": status}
    if isinstance(error, exceptions.ModelQuotaExceededError) or is_daily(error.body):
        return Failure(_exhausted(place, words, facts), "the quota is used up")
    if isinstance(error, exceptions.ModelContextWindowExceededError) or status == 413 or _is_length(status, words):
        return too_long(place, facts)
    if isinstance(error, exceptions.ModelAuthenticationError) or status in (401, 403):
        return Failure(_not_let_in(place, status, words), "the key was refused")
    if isinstance(error, exceptions.ModelNotFoundError):
        if _NO_PICTURES.search(words):
            return _rejected(place, words, error)
        return Failure(_unknown_model(place, error, words), "the model is not known")
    if status not in _PASSING_STATUSES or error.provider_retry_hint is False:
        return _rejected(place, words, error)
    why, after = _in_words(status), asked_to_wait(error)
    return Failure(
        place.audience.failed(
            f"{place.kind.title} {why} ({status}: {words})",
            hint="Try again later." if after is None else f"Try again in {after:g} seconds: it asks for that.",
            retryable=True,
            facts=facts if after is None else {**facts, "retry_after": after},
        ),
        f"{place.kind.title} {why} ({status})",
        passes=True,
        is_about_pictures=status == 500 and bool(_NO_PICTURES.search(words)),
        after=after,
    )


def _in_words(status: int) -> str:
    if status == 429:
        return "takes no more requests for now"
    return "is overloaded" if status in (503, 529) else "failed"


def _too_much(place: Place) -> Failure:
    told = f"{place.kind.title} sent more than any answer can be"
    return Failure(place.audience.failed(f"{told}.", hint=_check_address(place)), told)


def _packed(place: Place) -> Failure:
    told = f"{place.kind.title} sent a compressed answer, although it was asked not to"
    hint = f"See whether a proxy in between compresses what passes. {_check_address(place)}"
    return Failure(place.audience.failed(f"{told}.", hint=hint), told)


def _check_address(place: Place) -> str:
    return f"Check that {place.audience.address_of(place.kind)} is its API."


def _rejected(place: Place, words: str, error: Any) -> Failure:
    """A request that would be refused again."""
    status, everything = cast("int | None", getattr(error, "status_code", None)), everything_said(error)
    return Failure(
        place.audience.failed(
            f"{place.kind.title} refused the request to {place.model} ({status or 400}: {words})",
            hint=f"Check {place.audience.settings}: not every model takes every setting.",
            facts={"provider_status": status} if status else None,
        ),
        "the request was refused",
        is_about_pictures=bool(_NO_PICTURES.search(words)),
        is_about_thinking=bool(_ABOUT_THINKING.search(everything)),
        is_about_temperature=bool(_ABOUT_TEMPERATURE.search(everything)),
    )


def _not_let_in(place: Place, status: int, words: str) -> ToolyardError:
    facts = {"provider_status": status}
    if not place.key:
        return place.audience.wrong(
            f"{place.kind.title} at {place.address} wants a key ({status}: {words})",
            hint=f"Set {place.audience.keys_of(place.kind)}.",
            facts=facts,
        )
    return place.audience.wrong(
        f"{place.kind.title} refused the key from {place.key_source} ({status}: {words})",
        hint="Check that it is whole, of this provider, and has access to the model.",
        facts=facts,
    )


def _unknown_model(place: Place, error: Any, words: str) -> ToolyardError:
    audience = place.audience
    suggested = cast("str | None", error.suggested_model_id)
    meant = f' Did you mean "{suggested.partition(":")[2] or suggested}"?' if suggested else ""
    listing = (
        f"{place.address}/models" if place.kind.api == "openai" else f"the models of your {place.kind.title} account"
    )
    check = f"or check {audience.address_of(place.kind)}"
    return audience.wrong(
        f'{place.kind.title} at {place.address} knows no model "{place.model}" (404: {words})',
        hint=f"Set {audience.model} to one that it has: see {listing}, {check}.{meant}",
        facts={"provider_status": cast("int", error.status_code)},
    )


def _exhausted(place: Place, words: str, facts: Facts | None = None) -> ToolyardError:
    return place.audience.failed(
        f"The quota or the credit at {place.kind.title} is used up ({words})",
        hint="Look at the account's limits and billing, or use another model.",
        facts=facts,
    )


def _unreachable(error: Exception, place: Place) -> Failure:
    causes = list(_causes(error))
    if any(isinstance(each, ssl.SSLCertVerificationError) for each in causes):
        return Failure(
            place.audience.failed(
                f"{place.address} shows a certificate that is not trusted.",
                hint=f"Check {place.audience.address_of(place.kind)}; a server of your own may be reached by http.",
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
    check = f"Check {place.audience.address_of(place.kind)}"
    return Failure(
        place.audience.failed(f"{told}.", hint=f"{question} {check}.", retryable=True),
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
    return Failure(place.audience.failed(f"{told}.", hint=hint, retryable=True), told, passes=True)


def _is_length(status: int, words: str) -> bool:
    return status in (400, 422, 500) and bool(_TOO_LONG.search(words))
