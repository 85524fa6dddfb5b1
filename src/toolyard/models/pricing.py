"""Prices and sizes of models, from the data that genai-prices carries with it. Nothing is fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

    from toolyard.models.places import Place

DEFAULT_WINDOW = 128_000
_USUAL_WINDOWS = (("gemini-", 1_048_576), ("claude-", 200_000))
"""How names begin whose size the data leaves out."""


def price_of(response: ModelResponse) -> float | None:
    """In US dollars; None where the price is not known."""
    if not response.model_name or not response.usage.has_values():
        return None
    try:
        return float(response.cost().total_price)
    except (ArithmeticError, LookupError, ValueError):
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
