"""A model, opened: from a backend of the configuration to something that takes turns."""

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
    """A model that is asked as `backend` says; `access` holds the variables of providers (`Settings.model_access`).

    `patience` is how many seconds of one turn may be spent waiting for a provider that cannot answer, the first of
    the waits being of `first_pause`; one that never answered and cannot be reached at all is given up sooner
    (`trying.FIRST_CONTACT`). `most_tries` is how often it is asked at most for one answer; without it patience alone
    decides. `wording` is who is told of failures. Nothing is sent yet. Raises ConfigError, also where a key is
    missing.
    """
    place = resolve_endpoint(backend, access, wording)
    require_library(wording.extra)
    from toolyard.models.api_model import ApiModel
    from toolyard.models.pricing import lookup_context_window
    from toolyard.models.providers import create_provider_client

    return ApiModel(
        place,
        create_provider_client(place, backend.timeout),
        _base_settings(backend, place.kind.api),
        window=backend.context_window or lookup_context_window(place),
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
    if api == "claude":  # the others keep what they have seen by themselves
        settings["cache"] = True
    return settings
