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
from toolyard.models.provider_errors import full_error_text, is_daily_quota, provider_message, retry_after_seconds

if TYPE_CHECKING:
    from toolyard.models.endpoint import ModelEndpoint

_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429, *range(500, 600)}) - {501, 505}
_CONTEXT_OVERFLOW = re.compile(
    r"context.{0,20}(length|size|window|limit)|exceed_context|prompt is too long|input is too long"
    r"|too many (input )?tokens|input token count|request_too_large|maximum context",
    re.IGNORECASE,
)
_NO_PICTURES = re.compile(r"image|multimodal|mmproj|vision", re.IGNORECASE)
_ABOUT_THINKING = re.compile(r"thinking|reasoning|effort|budget", re.IGNORECASE)
_ABOUT_TEMPERATURE = re.compile(r"temperature|sampling", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ProviderFailure:
    error: ToolyardError
    reason: str
    """In a few words, for who waits."""
    is_transient: bool = False
    """Whether the same request may succeed later."""
    is_unreachable: bool = False
    """Whether there was not even a connection."""
    is_too_long: bool = False
    is_about_pictures: bool = False
    """Whether the provider seems to refuse pictures."""
    is_about_thinking: bool = False
    """Whether it seems to refuse being told how much to think."""
    is_about_temperature: bool = False
    cannot_stream: bool = False
    """Whether answers come in one piece alone, and have to be asked for so."""
    retry_after: float | None = None
    """Seconds that the provider asks to wait."""


def classify_error(error: Exception, endpoint: ModelEndpoint) -> ProviderFailure:
    """`error` is whatever the library raised."""
    from pydantic_ai import exceptions

    from toolyard.models.response_limits import CompressedResponse, NotStreamed, ResponseTooLarge

    causes = list(_exception_chain(error))
    if any(isinstance(each, ResponseTooLarge) for each in causes):
        return _oversized_answer_failure(endpoint)
    if any(isinstance(each, CompressedResponse) for each in causes):
        return _compressed_answer_failure(endpoint)
    if any(isinstance(each, NotStreamed) for each in causes):
        told = f"{endpoint.kind.title} does not send answers in pieces"
        return ProviderFailure(
            endpoint.wording.failure_type(f"{told}.", hint=_check_address_hint(endpoint)), told, cannot_stream=True
        )
    if isinstance(error, exceptions.ModelHTTPError):
        return _http_failure(error, endpoint)
    if isinstance(error, exceptions.ModelContextWindowExceededError):
        return context_overflow_failure(endpoint)
    if isinstance(error, exceptions.ModelQuotaExceededError):
        return ProviderFailure(_quota_error(endpoint, provider_message(error, endpoint)), "the quota is used up")
    timeouts = (exceptions.ModelTimeoutError, exceptions.ModelRequestTimeout)
    if isinstance(error, timeouts) and not _failed_to_connect(error):
        return _transient_failure(
            endpoint, "did not answer in time", f"A longer {endpoint.wording.timeout} may help."
        )
    if isinstance(error, exceptions.ModelConnectionError):
        return _connection_failure(error, endpoint)
    if isinstance(error, exceptions.UserError):  # what is asked of the library cannot be, for this model
        told = f"{endpoint.model} cannot be asked so: {provider_message(error, endpoint)}"
        return ProviderFailure(endpoint.wording.failure_type(told), "cannot be asked")
    if isinstance(error, exceptions.ModelRequestRejectedError):
        return _rejected_request_failure(endpoint, provider_message(error, endpoint), error)
    if isinstance(error, exceptions.ModelAPIError):
        return _transient_failure(
            endpoint, f"failed in the middle of an answer ({provider_message(error, endpoint)})"
        )
    return truncated_answer_failure(endpoint)


def truncated_answer_failure(endpoint: ModelEndpoint) -> ProviderFailure:
    return _transient_failure(endpoint, "ended an answer in the middle")


def unreadable_answer_failure(endpoint: ModelEndpoint) -> ProviderFailure:
    return _transient_failure(endpoint, "sent something that cannot be understood", _check_address_hint(endpoint))


def context_overflow_failure(endpoint: ModelEndpoint, facts: Facts | None = None) -> ProviderFailure:
    return ProviderFailure(
        endpoint.wording.failure_type(
            f"The conversation does not fit the context of {endpoint.model}, and nothing more can be left out of it.",
            hint=endpoint.wording.overflow_hint,
            facts=facts,
        ),
        "the conversation is too long",
        is_too_long=True,
    )


def content_filter_failure(endpoint: ModelEndpoint) -> ProviderFailure:
    error = endpoint.wording.failure_type(
        f"{endpoint.kind.title} withheld the answer of {endpoint.model}: its content filter stepped in.",
        hint="Say the task in other words, or use another model.",
    )
    return ProviderFailure(error, "the answer was withheld")


def empty_answer_failure(endpoint: ModelEndpoint, finish_reason: str | None) -> ProviderFailure:
    if finish_reason == "length":
        error = endpoint.wording.failure_type(
            f"{endpoint.model} reached the limit of its answer before it said anything.",
            hint=endpoint.wording.truncated_hint,
        )
    else:
        address = endpoint.wording.address_setting(endpoint.kind)
        error = endpoint.wording.failure_type(
            f"{endpoint.model} gave empty answers only.",
            hint=f"Check that the model can use tools, and that {address} is where its API listens.",
            retryable=True,
        )
    return ProviderFailure(error, f"{endpoint.model} gave an empty answer", is_transient=True)


def _http_failure(error: Any, endpoint: ModelEndpoint) -> ProviderFailure:
    from pydantic_ai import exceptions

    status, words = cast("int", error.status_code), provider_message(error, endpoint)
    facts: Facts = {"provider_status": status}
    if isinstance(error, exceptions.ModelQuotaExceededError) or is_daily_quota(error.body):
        return ProviderFailure(_quota_error(endpoint, words, facts), "the quota is used up")
    if (
        isinstance(error, exceptions.ModelContextWindowExceededError)
        or status == 413
        or _is_context_overflow(status, words)
    ):
        return context_overflow_failure(endpoint, facts)
    if isinstance(error, exceptions.ModelAuthenticationError) or status in (401, 403):
        return ProviderFailure(_authentication_error(endpoint, status, words), "the key was refused")
    if isinstance(error, exceptions.ModelNotFoundError):
        if _NO_PICTURES.search(words):
            return _rejected_request_failure(endpoint, words, error)
        return ProviderFailure(_unknown_model_error(endpoint, error, words), "the model is not known")
    if status not in _TRANSIENT_STATUSES or error.provider_retry_hint is False:
        return _rejected_request_failure(endpoint, words, error)
    why, after = _describe_status(status), retry_after_seconds(error)
    return ProviderFailure(
        endpoint.wording.failure_type(
            f"{endpoint.kind.title} {why} ({status}: {words})",
            hint="Try again later." if after is None else f"Try again in {after:g} seconds: it asks for that.",
            retryable=True,
            facts=facts if after is None else {**facts, "retry_after": after},
        ),
        f"{endpoint.kind.title} {why} ({status})",
        is_transient=True,
        is_about_pictures=status == 500 and bool(_NO_PICTURES.search(words)),
        retry_after=after,
    )


def _describe_status(status: int) -> str:
    if status == 429:
        return "takes no more requests for now"
    return "is overloaded" if status in (503, 529) else "failed"


def _oversized_answer_failure(endpoint: ModelEndpoint) -> ProviderFailure:
    told = f"{endpoint.kind.title} sent more than any answer can be"
    return ProviderFailure(endpoint.wording.failure_type(f"{told}.", hint=_check_address_hint(endpoint)), told)


def _compressed_answer_failure(endpoint: ModelEndpoint) -> ProviderFailure:
    told = f"{endpoint.kind.title} sent a compressed answer, although it was asked not to"
    hint = f"See whether a proxy in between compresses what passes. {_check_address_hint(endpoint)}"
    return ProviderFailure(endpoint.wording.failure_type(f"{told}.", hint=hint), told)


def _check_address_hint(endpoint: ModelEndpoint) -> str:
    return f"Check that {endpoint.wording.address_setting(endpoint.kind)} is its API."


def _rejected_request_failure(endpoint: ModelEndpoint, words: str, error: Any) -> ProviderFailure:
    """A request that would be refused again."""
    status, everything = cast("int | None", getattr(error, "status_code", None)), full_error_text(error)
    return ProviderFailure(
        endpoint.wording.failure_type(
            f"{endpoint.kind.title} refused the request to {endpoint.model} ({status or 400}: {words})",
            hint=f"Check {endpoint.wording.settings}: not every model takes every setting.",
            facts={"provider_status": status} if status else None,
        ),
        "the request was refused",
        is_about_pictures=bool(_NO_PICTURES.search(words)),
        is_about_thinking=bool(_ABOUT_THINKING.search(everything)),
        is_about_temperature=bool(_ABOUT_TEMPERATURE.search(everything)),
    )


def _authentication_error(endpoint: ModelEndpoint, status: int, words: str) -> ToolyardError:
    facts = {"provider_status": status}
    if not endpoint.key:
        return endpoint.wording.misconfiguration_type(
            f"{endpoint.kind.title} at {endpoint.address} wants a key ({status}: {words})",
            hint=f"Set {endpoint.wording.key_settings(endpoint.kind)}.",
            facts=facts,
        )
    return endpoint.wording.misconfiguration_type(
        f"{endpoint.kind.title} refused the key from {endpoint.key_source} ({status}: {words})",
        hint="Check that it is whole, of this provider, and has access to the model.",
        facts=facts,
    )


def _unknown_model_error(endpoint: ModelEndpoint, error: Any, words: str) -> ToolyardError:
    audience = endpoint.wording
    suggested = cast("str | None", error.suggested_model_id)
    meant = f' Did you mean "{suggested.partition(":")[2] or suggested}"?' if suggested else ""
    listing = (
        f"{endpoint.address}/models"
        if endpoint.kind.api == "openai"
        else f"the models of your {endpoint.kind.title} account"
    )
    check = f"or check {audience.address_setting(endpoint.kind)}"
    return audience.misconfiguration_type(
        f'{endpoint.kind.title} at {endpoint.address} knows no model "{endpoint.model}" (404: {words})',
        hint=f"Set {audience.model} to one that it has: see {listing}, {check}.{meant}",
        facts={"provider_status": cast("int", error.status_code)},
    )


def _quota_error(endpoint: ModelEndpoint, words: str, facts: Facts | None = None) -> ToolyardError:
    return endpoint.wording.failure_type(
        f"The quota or the credit at {endpoint.kind.title} is used up ({words})",
        hint="Look at the account's limits and billing, or use another model.",
        facts=facts,
    )


def _connection_failure(error: Exception, endpoint: ModelEndpoint) -> ProviderFailure:
    causes = list(_exception_chain(error))
    if any(isinstance(each, ssl.SSLCertVerificationError) for each in causes):
        return ProviderFailure(
            endpoint.wording.failure_type(
                f"{endpoint.address} shows a certificate that is not trusted.",
                hint=f"Check {endpoint.wording.address_setting(endpoint.kind)}; a server of your own may be reached by http.",
            ),
            "its certificate is not trusted",
        )
    if any(isinstance(each, ConnectionRefusedError) for each in causes) or _failed_to_connect(error):
        return _unreachable_failure(endpoint)
    return _transient_failure(endpoint, f"broke off the connection to {endpoint.address}")


def _unreachable_failure(endpoint: ModelEndpoint) -> ProviderFailure:
    """Whoever waits is told what to look at: nothing else may ever come of the waiting."""
    told = f"{endpoint.kind.title} cannot be reached at {endpoint.address}"
    question = "Is it running?" if endpoint.is_loopback else "Is it up, and is there a network?"
    check = f"Check {endpoint.wording.address_setting(endpoint.kind)}"
    return ProviderFailure(
        endpoint.wording.failure_type(f"{told}.", hint=f"{question} {check}.", retryable=True),
        f"{told}: {question[0].lower()}{question[1:]} {check}",
        is_transient=True,
        is_unreachable=True,
    )


def _failed_to_connect(error: Exception) -> bool:
    return getattr(error, "phase", None) == "connect"


def _exception_chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _transient_failure(endpoint: ModelEndpoint, what: str, hint: str = "Try again later.") -> ProviderFailure:
    told = f"{endpoint.kind.title} {what}"
    return ProviderFailure(
        endpoint.wording.failure_type(f"{told}.", hint=hint, retryable=True), told, is_transient=True
    )


def _is_context_overflow(status: int, words: str) -> bool:
    return status in (400, 422, 500) and bool(_CONTEXT_OVERFLOW.search(words))
