"""Opens the model of a configured backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from toolyard.models.endpoint import resolve_endpoint
from toolyard.models.error_wording import BACKEND_WORDING, ErrorWording
from toolyard.models.lazy_import import require_library
from toolyard.models.retry import FIRST_PAUSE, PATIENCE

if TYPE_CHECKING:
    from pydantic_ai.settings import ModelSettings

    from toolyard.config.models import Backend
    from toolyard.models.chat_model import ChatModel


def open_model(
    backend: Backend,
    access: Mapping[str, str],
    *,
    patience: float = PATIENCE,
    first_pause: float = FIRST_PAUSE,
    most_tries: int | None = None,
    wording: ErrorWording = BACKEND_WORDING,
) -> ChatModel:
    """Opens the model of `backend`. Nothing is sent yet. Raises ConfigError, also if a key is missing.

    `access` holds the providers' environment variables (`Settings.model_access`). `patience` limits the seconds that
    one turn may wait for a provider that cannot answer; the first wait takes `first_pause`. A provider that has never
    answered and cannot be reached is given up sooner (`retry.FIRST_CONTACT`). `most_tries` limits the requests for
    one answer; by default only `patience` does. `wording` selects how errors are worded.
    """
    endpoint = resolve_endpoint(backend, access, wording)
    require_library(wording.extra)
    from toolyard.models.api_model import ApiModel
    from toolyard.models.pricing import lookup_context_window
    from toolyard.models.providers import create_provider_client

    return ApiModel(
        endpoint,
        create_provider_client(endpoint, backend.timeout),
        _base_settings(backend, endpoint.kind.api),
        window=backend.context_window or lookup_context_window(endpoint),
        patience=patience,
        first_pause=first_pause,
        most_tries=most_tries,
    )


def _base_settings(backend: Backend, api: str) -> ModelSettings:
    settings: ModelSettings = {}
    if backend.temperature is not None:
        settings["temperature"] = backend.temperature
    if backend.max_tokens is not None:
        settings["max_tokens"] = backend.max_tokens
    if backend.thinking is not None:
        settings["thinking"] = False if backend.thinking == "off" else backend.thinking
    if api == "claude":  # the other providers cache prompts on their own
        settings["cache"] = True
    return settings
