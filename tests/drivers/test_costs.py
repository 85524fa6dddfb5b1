"""The price of a run, for the models and providers of each CLI."""

from __future__ import annotations

import pytest

from toolyard.drivers.registry import driver_of
from toolyard.models.pricing import ModelRef, list_price


def price(model: ModelRef) -> float | None:
    return list_price(model, fresh=800, cached=200, output=100)


@pytest.mark.parametrize(
    ("cli", "model", "variables", "ref"),
    [
        ("gemini", "gemini-2.5-pro", {}, ModelRef("google", "gemini-2.5-pro")),
        ("claude", "claude-sonnet-4-5", {}, ModelRef("anthropic", "claude-sonnet-4-5")),
        ("codex", "", {}, ModelRef("openai", "gpt-5.5")),
        (
            *("qwen", "qwen/qwen3-coder", {"OPENAI_BASE_URL": "https://openrouter.ai/api/v1"}),
            ModelRef("openai", "qwen/qwen3-coder", "https://openrouter.ai/api/v1"),
        ),
        ("opencode", "xai/grok-4", {}, ModelRef("x-ai", "grok-4")),
        (
            *("opencode", "openrouter/qwen/qwen3-coder", {"OPENAI_BASE_URL": "http://127.0.0.1/v1"}),
            ModelRef("openrouter", "qwen/qwen3-coder"),
        ),
        (
            *("opencode", "", {"OPENAI_BASE_URL": "http://127.0.0.1/v1", "OPENAI_MODEL": "gpt-5"}),
            ModelRef("openai", "gpt-5", "http://127.0.0.1/v1"),
        ),
    ],
)
def test_every_cli_has_a_price_for_the_models_of_its_providers(cli, model, variables, ref):
    found = driver_of(cli).model_ref(model, variables)

    assert found == ref
    assert (price(found) or 0.0) > 0.0


@pytest.mark.parametrize(
    ("cli", "model", "variables"),
    [
        ("qwen", "qwen3-coder-at-home", {"OPENAI_BASE_URL": "http://127.0.0.1/v1"}),
        ("opencode", "opencode/a-free-model", {}),
        ("opencode", "", {}),
        ("gemini", "", {}),
    ],
)
def test_no_price_is_made_up(cli, model, variables):
    assert price(driver_of(cli).model_ref(model, variables)) is None


def test_cached_input_costs_less():
    model = ModelRef("google", "gemini-2.5-flash")
    assert list_price(model, fresh=1000, cached=0, output=0) == pytest.approx(0.0003)
    assert list_price(model, fresh=0, cached=1000, output=0) == pytest.approx(0.00003)


def test_gemini_cli_counts_each_model_and_thoughts_are_output():
    reader = driver_of("gemini").reader("run", ())
    flash = {"total_tokens": 150, "input_tokens": 100, "output_tokens": 10, "cached": 40}
    lite = {"total_tokens": 15, "input_tokens": 10, "output_tokens": 5, "cached": 0}
    stats = {"input_tokens": 110, "output_tokens": 15, "models": {"flash": flash, "lite": lite, "odd": None}}

    list(reader.read({"type": "result", "status": "success", "stats": stats}))

    billed = {name: (each.input, each.output, each.cached) for name, each in reader.state.tokens_by_model.items()}
    assert billed == {"flash": (100, 50, 40), "lite": (10, 5, 0), "odd": (0, 0, 0)}
