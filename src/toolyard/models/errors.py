"""Converts errors of providers and their SDKs to Toolyard errors, and classifies which of them are transient.

Providers and SDKs report the same problem in many ways; pydantic-ai unifies most of them. This module separates the
rest: transient errors, a context overflow, and everything that needs a change by the user.
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
    """A failed request: the error to raise, and what a retry may do about it."""

    error: ToolyardError
    reason: str
    """In a few words, for progress messages."""
    is_transient: bool = False
    """Whether the same request may succeed later."""
    is_unreachable: bool = False
    """Whether no connection could be made."""
    is_too_long: bool = False
    is_about_pictures: bool = False
    """Whether the provider seems to refuse pictures."""
    is_about_thinking: bool = False
    """Whether it seems to refuse the setting for thinking."""
    is_about_temperature: bool = False
    cannot_stream: bool = False
    """Whether the server does not stream, so that answers have to be requested whole."""
    retry_after: float | None = None
    """Seconds that the provider asks to wait."""


def classify_error(error: Exception, endpoint: ModelEndpoint) -> ProviderFailure:
    """Converts whatever the library raised to a ProviderFailure."""
    from pydantic_ai import exceptions

    from toolyard.models.response_limits import CompressedResponse, NotStreamed, ResponseTooLarge

    causes = list(_exception_chain(error))
    if any(isinstance(each, ResponseTooLarge) for each in causes):
        return _oversized_answer_failure(endpoint)
    if any(isinstance(each, CompressedResponse) for each in causes):
        return _compressed_answer_failure(endpoint)
    if any(isinstance(each, NotStreamed) for each in causes):
        message = f"{endpoint.kind.title} does not stream answers"
        return ProviderFailure(
            endpoint.wording.failure_type(f"{message}.", hint=_check_address_hint(endpoint)),
            message,
            cannot_stream=True,
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
    if isinstance(error, exceptions.UserError):  # the library cannot send this request to this model
        message = f"{endpoint.model} does not support this request: {provider_message(error, endpoint)}"
        return ProviderFailure(endpoint.wording.failure_type(message), "the request is not supported")
    if isinstance(error, exceptions.ModelRequestRejectedError):
        return _rejected_request_failure(endpoint, provider_message(error, endpoint), error)
    if isinstance(error, exceptions.ModelAPIError):
        return _transient_failure(
            endpoint, f"failed in the middle of an answer ({provider_message(error, endpoint)})"
        )
    return truncated_answer_failure(endpoint)


def truncated_answer_failure(endpoint: ModelEndpoint) -> ProviderFailure:
    return _transient_failure(endpoint, "cut off an answer")


def unreadable_answer_failure(endpoint: ModelEndpoint) -> ProviderFailure:
    return _transient_failure(endpoint, "sent an unreadable answer", _check_address_hint(endpoint))


def context_overflow_failure(endpoint: ModelEndpoint, facts: Facts | None = None) -> ProviderFailure:
    return ProviderFailure(
        endpoint.wording.failure_type(
            f"The conversation does not fit the context of {endpoint.model}, and it cannot be shortened any further.",
            hint=endpoint.wording.overflow_hint,
            facts=facts,
        ),
        "the conversation is too long",
        is_too_long=True,
    )


def content_filter_failure(endpoint: ModelEndpoint) -> ProviderFailure:
    error = endpoint.wording.failure_type(
        f"{endpoint.kind.title} withheld the answer of {endpoint.model}: its content filter blocked it.",
        hint="Rephrase the task, or use another model.",
    )
    return ProviderFailure(error, "the answer was withheld")


def empty_answer_failure(endpoint: ModelEndpoint, finish_reason: str | None) -> ProviderFailure:
    if finish_reason == "length":
        error = endpoint.wording.failure_type(
            f"{endpoint.model} reached its output limit before it produced any text.",
            hint=endpoint.wording.truncated_hint,
        )
    else:
        address = endpoint.wording.address_setting(endpoint.kind)
        error = endpoint.wording.failure_type(
            f"{endpoint.model} returned only empty answers.",
            hint=f"Check that the model can use tools, and that {address} is the address of its API.",
            retryable=True,
        )
    return ProviderFailure(error, f"{endpoint.model} returned an empty answer", is_transient=True)


def _http_failure(error: Any, endpoint: ModelEndpoint) -> ProviderFailure:
    from pydantic_ai import exceptions

    status, message = cast("int", error.status_code), provider_message(error, endpoint)
    facts: Facts = {"provider_status": status}
    if isinstance(error, exceptions.ModelQuotaExceededError) or is_daily_quota(error.body):
        return ProviderFailure(_quota_error(endpoint, message, facts), "the quota is used up")
    if (
        isinstance(error, exceptions.ModelContextWindowExceededError)
        or status == 413
        or _is_context_overflow(status, message)
    ):
        return context_overflow_failure(endpoint, facts)
    if isinstance(error, exceptions.ModelAuthenticationError) or status in (401, 403):
        return ProviderFailure(_authentication_error(endpoint, status, message), "the key was refused")
    if isinstance(error, exceptions.ModelNotFoundError):
        if _NO_PICTURES.search(message):
            return _rejected_request_failure(endpoint, message, error)
        return ProviderFailure(_unknown_model_error(endpoint, error, message), "the model is unknown")
    if status not in _TRANSIENT_STATUSES or error.provider_retry_hint is False:
        return _rejected_request_failure(endpoint, message, error)
    why, after = _describe_status(status), retry_after_seconds(error)
    return ProviderFailure(
        endpoint.wording.failure_type(
            f"{endpoint.kind.title} {why} ({status}: {message})",
            hint="Try again later." if after is None else f"Try again in {after:g} seconds, as the provider asks.",
            retryable=True,
            facts=facts if after is None else {**facts, "retry_after": after},
        ),
        f"{endpoint.kind.title} {why} ({status})",
        is_transient=True,
        is_about_pictures=status == 500 and bool(_NO_PICTURES.search(message)),
        retry_after=after,
    )


def _describe_status(status: int) -> str:
    if status == 429:
        return "is limiting requests"
    return "is overloaded" if status in (503, 529) else "failed"


def _oversized_answer_failure(endpoint: ModelEndpoint) -> ProviderFailure:
    message = f"{endpoint.kind.title} sent an answer over the size limit"
    return ProviderFailure(endpoint.wording.failure_type(f"{message}.", hint=_check_address_hint(endpoint)), message)


def _compressed_answer_failure(endpoint: ModelEndpoint) -> ProviderFailure:
    message = f"{endpoint.kind.title} sent a compressed answer, although compression was disabled"
    hint = f"Check whether a proxy in between compresses responses. {_check_address_hint(endpoint)}"
    return ProviderFailure(endpoint.wording.failure_type(f"{message}.", hint=hint), message)


def _check_address_hint(endpoint: ModelEndpoint) -> str:
    return f"Check that {endpoint.wording.address_setting(endpoint.kind)} is the address of its API."


def _rejected_request_failure(endpoint: ModelEndpoint, words: str, error: Any) -> ProviderFailure:
    """A request that would be refused again."""
    status, everything = cast("int | None", getattr(error, "status_code", None)), full_error_text(error)
    return ProviderFailure(
        endpoint.wording.failure_type(
            f"{endpoint.kind.title} refused the request to {endpoint.model} ({status or 400}: {words})",
            hint=f"Check {endpoint.wording.settings}: not every model supports every setting.",
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
            f"{endpoint.kind.title} at {endpoint.address} requires a key ({status}: {words})",
            hint=f"Set {endpoint.wording.key_settings(endpoint.kind)}.",
            facts=facts,
        )
    return endpoint.wording.misconfiguration_type(
        f"{endpoint.kind.title} refused the key from {endpoint.key_source} ({status}: {words})",
        hint="Check that it is complete, belongs to this provider, and has access to the model.",
        facts=facts,
    )


def _unknown_model_error(endpoint: ModelEndpoint, error: Any, words: str) -> ToolyardError:
    wording = endpoint.wording
    suggested = cast("str | None", error.suggested_model_id)
    suggestion = f' Did you mean "{suggested.partition(":")[2] or suggested}"?' if suggested else ""
    listing = (
        f"{endpoint.address}/models"
        if endpoint.kind.api == "openai"
        else f"the models of your {endpoint.kind.title} account"
    )
    check = f"or check {wording.address_setting(endpoint.kind)}"
    return wording.misconfiguration_type(
        f'{endpoint.kind.title} at {endpoint.address} has no model "{endpoint.model}" (404: {words})',
        hint=f"Set {wording.model} to an available one: see {listing}, {check}.{suggestion}",
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
                f"{endpoint.address} has a certificate that is not trusted.",
                hint=f"Check {endpoint.wording.address_setting(endpoint.kind)}; a server of your own may use http.",
            ),
            "its certificate is not trusted",
        )
    if any(isinstance(each, ConnectionRefusedError) for each in causes) or _failed_to_connect(error):
        return _unreachable_failure(endpoint)
    return _transient_failure(endpoint, f"closed the connection to {endpoint.address}")


def _unreachable_failure(endpoint: ModelEndpoint) -> ProviderFailure:
    """The server cannot be reached. The reason names what to check, since waiting may never help."""
    message = f"{endpoint.kind.title} cannot be reached at {endpoint.address}"
    question = "Is it running?" if endpoint.is_loopback else "Is it up, and is there a network?"
    check = f"Check {endpoint.wording.address_setting(endpoint.kind)}"
    return ProviderFailure(
        endpoint.wording.failure_type(f"{message}.", hint=f"{question} {check}.", retryable=True),
        f"{message}: {question[0].lower()}{question[1:]} {check}",
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
    message = f"{endpoint.kind.title} {what}"
    return ProviderFailure(
        endpoint.wording.failure_type(f"{message}.", hint=hint, retryable=True), message, is_transient=True
    )


def _is_context_overflow(status: int, words: str) -> bool:
    return status in (400, 422, 500) and bool(_CONTEXT_OVERFLOW.search(words))
