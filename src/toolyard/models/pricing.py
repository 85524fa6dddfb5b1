"""Prices and sizes of models, from the data that genai-prices carries with it. Nothing is fetched."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

    from toolyard.models.endpoint import Place

DEFAULT_WINDOW = 128_000
_USUAL_WINDOWS = (("gemini-", 1_048_576), ("claude-", 200_000))
"""How names begin whose size the data leaves out."""
_UNPRICED = (ArithmeticError, LookupError, ValueError)
"""What the data raises for models and providers that it does not have, and for counts that it cannot price."""


def price_of(response: ModelResponse) -> float | None:
    """In US dollars; None where the price is not known."""
    if not response.model_name or not response.usage.has_values():
        return None
    try:
        return float(response.cost().total_price)
    except _UNPRICED:
        return None


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model as its provider lists it."""

    provider: str
    """As genai-prices names it."""
    name: str
    address: str = ""
    """Of the endpoint in use. One that belongs to another provider decides which one it is."""


def list_price(model: ModelRef, *, fresh: int, cached: int, output: int) -> float | None:
    """In US dollars, for the tokens of a model; None where the price is not known.

    `fresh` and `cached` are the two parts of the input. Needs genai-prices, which comes with the `agents` extra.
    """
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return None
    usage = Usage(input_tokens=fresh + cached, cache_read_tokens=cached, output_tokens=output)
    with contextlib.suppress(*_UNPRICED):
        if model.address:
            return float(calc_price(usage, model.name, provider_api_url=model.address).total_price)
    with contextlib.suppress(*_UNPRICED):
        return float(calc_price(usage, model.name, provider_id=model.provider).total_price)
    return None


def window_of(place: Place) -> int:
    """Tokens that the model's context holds, where it is known."""
    from genai_prices.data_snapshot import get_snapshot

    if place.is_free:
        return DEFAULT_WINDOW
    provider = {"gemini": "google", "claude": "anthropic"}.get(place.kind.api, place.kind.name)
    try:
        _, model = get_snapshot().find_provider_model(place.model, None, provider, None)
    except LookupError:
        return _usual_window(place.model)
    return model.context_window or _usual_window(place.model)


def _usual_window(name: str) -> int:
    return next((window for begin, window in _USUAL_WINDOWS if name.startswith(begin)), DEFAULT_WINDOW)
