"""Maps thinking mode and temperature to the settings of each provider's API.

A mode stands for a number of tokens. Models that take a number get it, clamped to their range: Gemini 2.5, Claude
before 4.6. Others take levels, and get the level of that name or the nearest that they support: Gemini 3, Claude
since 4.6 (adaptive, with an effort), OpenAI's models, and OpenRouter. If fewer tokens are allowed than the level
stands for, a lower level is sent. Models without thinking get no such setting. The library's profiles say what a
model supports.

A temperature is sent if the model takes one: Claude takes none while it thinks, and never more than 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from toolyard.models.messages import ThinkingMode, TurnSettings

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings

    from toolyard.config.backends import BackendKind

THINKING_TOKENS: Final[Mapping[ThinkingMode, int]] = {
    "minimal": 128,
    "low": 2_048,
    "medium": 8_192,
    "high": 16_384,
    "max": 32_768,
}
_GEMINI_BUDGETS: Final = (
    ("gemini-2.5-pro", 128, 32_768),
    ("gemini-2.5-flash-lite", 512, 24_576),
    ("gemini-2.5-flash", 1, 24_576),
    ("", 512, 24_576),
)
"""Prefix of the model's name, and the smallest and largest thinking budget that it accepts."""
_CLAUDE_MIN_BUDGET: Final = 1_024
_CLAUDE_OUTPUT_TOKENS: Final = 32_000
"""Output limit, thinking included, of the oldest thinking models; used if the library does not know it."""
_CLAUDE_ANSWER_TOKENS: Final = 8_192
"""Tokens reserved for the answer itself."""
_LAST_WITHOUT_MAX_EFFORT: Final = "gpt-5.1"
"""OpenAI's models up to this one do not accept an effort above `high`."""
_ADAPTS_LEVELS: Final = frozenset({"openrouter"})
"""Kinds of backends that map a level to the nearest one of the model behind them."""


def model_settings(
    settings: ModelSettings, turn_settings: TurnSettings, kind: BackendKind, model: Model[Any]
) -> ModelSettings:
    """Returns the settings to send: those of the turn where they are given, else `settings`."""
    result, profile = dict[str, Any](settings), cast("Mapping[str, Any]", model.profile)
    if turn_settings.temperature is not None:
        result["temperature"] = turn_settings.temperature
    if turn_settings.thinking is not None and profile.get("supports_thinking"):
        result.pop("thinking", None)
        if kind.api == "gemini":
            result |= _gemini_settings(
                turn_settings.thinking, turn_settings.thinking_tokens, model.model_name, profile
            )
        elif kind.api == "claude":
            result |= _claude_settings(
                turn_settings.thinking, turn_settings.thinking_tokens, result.get("max_tokens"), profile
            )
        else:
            level = _level_within(turn_settings.thinking, turn_settings.thinking_tokens)
            result["thinking"] = (
                level if kind.name in _ADAPTS_LEVELS else _supported_effort(level, model.model_name, profile)
            )
    if turn_settings.temperature is not None and kind.api == "claude":
        result = _with_claude_temperature(result, profile)
    return cast("ModelSettings", result)


def _level_within(mode: ThinkingMode, most: int) -> ThinkingMode:
    """Returns the mode itself, or the highest one below it that stays within `most` tokens."""
    allowed: list[ThinkingMode] = [
        each for each, tokens in THINKING_TOKENS.items() if tokens <= min(THINKING_TOKENS[mode], most)
    ]
    return allowed[-1] if allowed else "minimal"


def _gemini_settings(mode: ThinkingMode, most: int, name: str, profile: Mapping[str, Any]) -> dict[str, Any]:
    if profile.get("google_supports_thinking_level", True):
        return {"thinking": _level_within(mode, most)}
    least, taken = next((least, taken) for begin, least, taken in _GEMINI_BUDGETS if name.startswith(begin))
    budget = max(min(THINKING_TOKENS[mode], most, taken), least)
    return {"google_thinking_config": {"include_thoughts": True, "thinking_budget": budget}}


def _claude_settings(mode: ThinkingMode, most: int, length: int | None, profile: Mapping[str, Any]) -> dict[str, Any]:
    level = _level_within(mode, most)
    if profile.get("anthropic_supports_adaptive_thinking"):
        return {"thinking": level}
    taken = (profile.get("anthropic_max_output_tokens") or _CLAUDE_OUTPUT_TOKENS) - _CLAUDE_ANSWER_TOKENS
    budget = max(min(THINKING_TOKENS[mode], most, taken), _CLAUDE_MIN_BUDGET)
    result: dict[str, Any] = {
        "thinking": level,  # some models take an effort in addition to the number
        "anthropic_thinking": {"type": "enabled", "budget_tokens": budget},
    }
    # `max_tokens` covers thinking and answer together, and has to exceed the thinking budget.
    return result if length is None else {**result, "max_tokens": length + budget}


def _supported_effort(level: ThinkingMode, name: str, profile: Mapping[str, Any]) -> ThinkingMode:
    """Returns a level that the library sends as an effort the model supports."""
    if "openai_reasoning_efforts" in profile:
        return level
    has_more = profile.get("openai_supports_reasoning") and not name.startswith(_LAST_WITHOUT_MAX_EFFORT)
    if level == "max" and not has_more:
        return "high"
    return "low" if level == "minimal" else level


def _with_claude_temperature(made: dict[str, Any], profile: Mapping[str, Any]) -> dict[str, Any]:
    thinks = made.get("thinking", profile.get("thinking_enabled_by_default", False))
    if thinks or profile.get("anthropic_disallows_sampling_settings"):
        return {name: value for name, value in made.items() if name != "temperature"}
    return {**made, "temperature": min(made["temperature"], 1.0)}
