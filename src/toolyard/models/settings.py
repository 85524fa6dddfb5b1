"""How much a model thinks and how freely it speaks, in the settings of its own API. The one table of it.

A mode stands for a number of tokens. Models that take a number get it, within what they take: Gemini 2.5, Claude
before 4.6. Others take levels, and get the one of that name or the nearest that they have: Gemini 3, Claude since 4.6
(adaptive, with an effort), those of OpenAI, and OpenRouter. Where fewer tokens are allowed than a level stands for, a
lower one is sent. Models that do not think are told nothing. What a model is comes from the library's profiles.

A temperature goes with it where the model takes one: Claude takes none while it thinks, and never more than 1.
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
"""How a name begins, and the least and the most tokens that may be set."""
_CLAUDE_MIN_BUDGET: Final = 1_024
_CLAUDE_OUTPUT_TOKENS: Final = 32_000
"""What the oldest that think give at most, thoughts included, where the library does not know."""
_CLAUDE_ANSWER_TOKENS: Final = 8_192
"""Tokens that stay for the answer itself."""
_LAST_WITHOUT_MAX_EFFORT: Final = "gpt-5.1"
"""The first of OpenAI's to think more than `high` came after it; others know three levels."""
_ADAPTS_LEVELS: Final = frozenset({"openrouter"})
"""Who finds the nearest level that the model behind it has."""


def model_settings(
    settings: ModelSettings, turn_settings: TurnSettings, kind: BackendKind, model: Model[Any]
) -> ModelSettings:
    """What is sent for a wish; what it leaves open is as `settings` have it."""
    made, profile = dict[str, Any](settings), cast("Mapping[str, Any]", model.profile)
    if turn_settings.temperature is not None:
        made["temperature"] = turn_settings.temperature
    if turn_settings.thinking is not None and profile.get("supports_thinking"):
        made.pop("thinking", None)
        if kind.api == "gemini":
            made |= _gemini_settings(turn_settings.thinking, turn_settings.thinking_tokens, model.model_name, profile)
        elif kind.api == "claude":
            made |= _claude_settings(
                turn_settings.thinking, turn_settings.thinking_tokens, made.get("max_tokens"), profile
            )
        else:
            level = _level_within(turn_settings.thinking, turn_settings.thinking_tokens)
            made["thinking"] = (
                level if kind.name in _ADAPTS_LEVELS else _supported_effort(level, model.model_name, profile)
            )
    if turn_settings.temperature is not None and kind.api == "claude":
        made = _with_claude_temperature(made, profile)
    return cast("ModelSettings", made)


def _level_within(mode: ThinkingMode, most: int) -> ThinkingMode:
    """The mode itself, or the highest below it that is within so many tokens."""
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
    told: dict[str, Any] = {
        "thinking": level,  # some take an effort beside the number
        "anthropic_thinking": {"type": "enabled", "budget_tokens": budget},
    }
    # The length is of thoughts and answer together, and has to be more than the thoughts may take.
    return told if length is None else {**told, "max_tokens": length + budget}


def _supported_effort(level: ThinkingMode, name: str, profile: Mapping[str, Any]) -> ThinkingMode:
    """A level that the library sends as one that the model has."""
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
