"""Prices and context sizes of models, from the data bundled with genai-prices. Nothing is downloaded."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

    from toolyard.models.endpoint import ModelEndpoint

DEFAULT_WINDOW = 128_000
_DEFAULT_WINDOWS = (("gemini-", 1_048_576), ("claude-", 200_000))
"""By prefix of the model's name, for models whose context size the data lacks."""
_UNKNOWN_PRICE_ERRORS = (ArithmeticError, LookupError, ValueError)
"""Raised by genai-prices for unknown models and providers, and for counts that it cannot price."""


def response_cost(response: ModelResponse) -> float | None:
    """Returns the cost of a response in US dollars; None if the price is unknown."""
    if not response.model_name or not response.usage.has_values():
        return None
    try:
        return float(response.cost().total_price)
    except _UNKNOWN_PRICE_ERRORS:
        return None


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model in its provider's price list."""

    provider: str
    """The provider's id in genai-prices."""
    name: str
    address: str = ""
    """URL of the endpoint in use. If it belongs to another provider, that provider's prices apply."""


def list_price(model: ModelRef, *, fresh: int, cached: int, output: int) -> float | None:
    """Returns the list price of the given tokens in US dollars; None if it is unknown.

    `fresh` and `cached` are the two parts of the input. Needs genai-prices, which the `agents` extra installs.
    """
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return None
    usage = Usage(input_tokens=fresh + cached, cache_read_tokens=cached, output_tokens=output)
    with contextlib.suppress(*_UNKNOWN_PRICE_ERRORS):
        if model.address:
            return float(calc_price(usage, model.name, provider_api_url=model.address).total_price)
    with contextlib.suppress(*_UNKNOWN_PRICE_ERRORS):
        return float(calc_price(usage, model.name, provider_id=model.provider).total_price)
    return None


def lookup_context_window(endpoint: ModelEndpoint) -> int:
    """Returns the context size of the model in tokens, or a default if it is unknown."""
    from genai_prices.data_snapshot import get_snapshot

    if endpoint.is_free:
        return DEFAULT_WINDOW
    provider = {"gemini": "google", "claude": "anthropic"}.get(endpoint.kind.api, endpoint.kind.name)
    try:
        _, model = get_snapshot().find_provider_model(endpoint.model, None, provider, None)
    except LookupError:
        return _default_window(endpoint.model)
    return model.context_window or _default_window(endpoint.model)


def _default_window(name: str) -> int:
    return next((window for begin, window in _DEFAULT_WINDOWS if name.startswith(begin)), DEFAULT_WINDOW)
