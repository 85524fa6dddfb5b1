"""How much a model is to think, and how freely to speak, as each API is told it: what goes over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from tests.models.conftest import talking
from toolyard.core.errors import SystemFault
from toolyard.models.messages import RetryWait, TurnSettings
from toolyard.testing.mock_model import Fail, Request, Say, Step, Turn, Usage

MODES = ("minimal", "low", "medium", "high", "max")


async def sent(kind: str, model: str, wish: TurnSettings, **keys: Any) -> dict[str, Any]:
    async with talking(kind, [Say("ok")], model=model, **keys) as t:
        await t.say("hello", settings=wish, tools=())
        (request,) = t.server.requests
        return request.body


def told_gemini(body: dict[str, Any]) -> dict[str, Any]:
    return body["generationConfig"].get("thinkingConfig", {})


@pytest.mark.parametrize(
    ("model", "budgets"),
    [
        ("gemini-2.5-pro", (128, 2_048, 8_192, 16_384, 32_768)),
        ("gemini-2.5-flash", (128, 2_048, 8_192, 16_384, 24_576)),
        ("gemini-2.5-flash-lite", (512, 2_048, 8_192, 16_384, 24_576)),
    ],
)
async def test_gemini_2_5_is_told_a_number_within_what_it_takes(model, budgets):
    bodies = [await sent("gemini", model, TurnSettings(thinking=mode)) for mode in MODES]
    assert tuple(told_gemini(body)["thinking_budget"] for body in bodies) == budgets


@pytest.mark.parametrize(
    ("model", "levels"),
    [
        ("gemini-3-flash-preview", ("MINIMAL", "LOW", "MEDIUM", "HIGH", "HIGH")),
        ("gemini-3-pro-preview", ("LOW", "LOW", "LOW", "HIGH", "HIGH")),
    ],
)
async def test_gemini_3_is_told_a_level_that_it_has(model, levels):
    bodies = [await sent("gemini", model, TurnSettings(thinking=mode)) for mode in MODES]
    assert tuple(told_gemini(body)["thinking_level"] for body in bodies) == levels
    assert all("thinking_budget" not in told_gemini(body) for body in bodies)


async def test_claude_with_a_budget_gets_room_for_its_answer_beyond_it():
    bodies = [await sent("claude", "claude-haiku-4-5", TurnSettings(thinking=mode)) for mode in MODES]
    assert [body["thinking"] for body in bodies] == [
        {"type": "enabled", "budget_tokens": tokens} for tokens in (1_024, 2_048, 8_192, 16_384, 32_768)
    ]
    assert all(body["max_tokens"] >= body["thinking"]["budget_tokens"] + 4_096 for body in bodies)


@pytest.mark.parametrize("model", ["claude-opus-4-1", "claude-sonnet-4-0", "claude-3-7-sonnet-latest"])
async def test_an_older_claude_is_not_told_more_than_it_can_say(model):
    body = await sent("claude", model, TurnSettings(thinking="max"))
    assert body["thinking"]["budget_tokens"] < body["max_tokens"] <= 32_000


async def test_a_length_that_was_set_is_that_of_the_answer():
    body = await sent("claude", "claude-haiku-4-5", TurnSettings(thinking="medium"), max_tokens=1_000)
    assert body["max_tokens"] == 1_000 + 8_192


@pytest.mark.parametrize("model", ["claude-opus-5", "claude-sonnet-4-6"])
async def test_a_newer_claude_is_told_an_effort(model):
    bodies = [await sent("claude", model, TurnSettings(thinking=mode)) for mode in MODES]
    assert {body["thinking"]["type"] for body in bodies} == {"adaptive"}
    assert [body["output_config"]["effort"] for body in bodies] == ["low", "low", "medium", "high", "max"]


@pytest.mark.parametrize(
    ("model", "efforts"),
    [
        ("gpt-5", ("minimal", "low", "medium", "high", "high")),
        ("gpt-5.1", ("low", "low", "medium", "high", "high")),
        ("gpt-5.4", ("low", "low", "medium", "high", "xhigh")),
        ("o3", ("low", "low", "medium", "high", "high")),
        ("gpt-5-pro", ("high",) * 5),
    ],
)
async def test_models_of_openai_are_told_an_effort_that_they_take(model, efforts):
    bodies = [await sent("openai", model, TurnSettings(thinking=mode)) for mode in MODES]
    assert tuple(body["reasoning_effort"] for body in bodies) == efforts


async def test_a_server_of_ones_own_is_told_one_of_the_three_levels_that_all_know():
    bodies = [await sent("ollama", "deepseek-r1", TurnSettings(thinking=mode)) for mode in MODES]
    assert [body["reasoning_effort"] for body in bodies] == ["low", "low", "medium", "high", "high"]


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        ("gemini", "gemini-2.0-flash"),
        ("openai", "gpt-4o"),
        ("openai", "llama3"),
        ("ollama", "llama3"),
        ("openai-compatible", "some-model"),
    ],
)
async def test_a_model_that_does_not_think_is_told_nothing_of_it(kind, model):
    body = await sent(kind, model, TurnSettings(thinking="max", temperature=0.5))
    assert not {"reasoning_effort", "thinking", "reasoning"} & body.keys()
    assert kind != "gemini" or not told_gemini(body)
    assert body.get("generationConfig", body)["temperature"] == 0.5


async def test_openrouter_is_told_an_effort_in_its_own_way():
    body = await sent("openrouter", "anthropic/claude-sonnet-5", TurnSettings(thinking="max"), api_key="k")
    assert body["reasoning"]["effort"] == "max"


@pytest.mark.parametrize(
    ("kind", "model", "most", "expected"),
    [
        ("gemini", "gemini-2.5-pro", 4_000, 4_000),
        ("gemini", "gemini-2.5-pro", 50, 128),
        ("gemini", "gemini-3-flash-preview", 4_000, "LOW"),
        ("gemini", "gemini-3-flash-preview", 50, "MINIMAL"),
        ("claude", "claude-haiku-4-5", 4_000, 4_000),
        ("claude", "claude-opus-5", 10_000, "medium"),
        ("openai", "gpt-5", 20_000, "high"),
        ("openai", "gpt-5", 4_000, "low"),
    ],
)
async def test_no_mode_goes_beyond_the_tokens_that_are_allowed(kind, model, most, expected):
    body = await sent(kind, model, TurnSettings(thinking="max", thinking_tokens=most))
    if kind == "gemini":
        (said,) = {told_gemini(body).get(key) for key in ("thinking_budget", "thinking_level")} - {None}
    elif kind == "claude":
        said = body["thinking"].get("budget_tokens") or body["output_config"]["effort"]
    else:
        said = body["reasoning_effort"]
    assert said == expected


@pytest.mark.parametrize(
    ("kind", "model", "wish", "expected"),
    [
        ("gemini", "gemini-2.5-pro", TurnSettings(0.3, "high"), 0.3),
        ("openai", "gpt-4o", TurnSettings(0.3), 0.3),
        ("openai", "gpt-5", TurnSettings(0.3), None),
        ("openai", "gpt-5.4", TurnSettings(0.3, "low"), None),
        ("openai", "gpt-5.4", TurnSettings(0.3), 0.3),
        ("claude", "claude-haiku-4-5", TurnSettings(0.3), 0.3),
        ("claude", "claude-haiku-4-5", TurnSettings(1.5), 1.0),
        ("claude", "claude-haiku-4-5", TurnSettings(0.3, "low"), None),
        ("claude", "claude-sonnet-4-6", TurnSettings(0.3, "low"), None),
        ("claude", "claude-opus-5", TurnSettings(0.3), None),
    ],
)
async def test_a_temperature_is_sent_where_the_model_takes_one(kind, model, wish, expected):
    body = await sent(kind, model, wish)
    assert body.get("generationConfig", body).get("temperature") == expected


async def test_a_wish_goes_before_what_the_backend_says_for_one_turn_only(kind, talk):
    async with talk([Say("one"), Say("two")], thinking="low") as t:
        await t.say("first", settings=TurnSettings(thinking="high"))
        await t.say("second")
        first, second = (request.body for request in t.server.requests)
        assert first != second
        low = {
            "gemini": lambda: told_gemini(second)["thinking_budget"] == 2_048,
            "openai": lambda: second["reasoning_effort"] == "low",
            "claude": lambda: second["thinking"]["budget_tokens"] == 2_048,
        }
        assert low[kind]()


WORDS = {
    "thinking": "Unrecognized request argument supplied: reasoning_effort / thinking",
    "temperature": "Unsupported value: 'temperature' does not support 0.5 with this model.",
}


@pytest.mark.parametrize("part", ["thinking", "temperature"])
@pytest.mark.parametrize(
    ("kind", "model"), [("gemini", "gemini-2.5-pro"), ("openai", "gpt-5.4"), ("claude", "claude-sonnet-4-0")]
)
async def test_what_a_server_refuses_of_a_wish_is_left_out_then_and_later(kind, model, part):
    wish = TurnSettings(thinking="high") if part == "thinking" else TurnSettings(temperature=0.5)

    def says(body: dict[str, Any]) -> bool:
        names = {"thinking", "thinkingConfig", "reasoning_effort"} if part == "thinking" else {"temperature"}
        return bool(names & (body.keys() | body.get("generationConfig", {}).keys()))

    def picky(request: Request) -> Step:
        return Fail(400, message=WORDS[part]) if says(request.body) else Say("gladly")

    async with talking(kind, picky, model=model, patience=0) as t:
        assert (await t.say("hello", settings=wish)).text == "gladly"
        assert (await t.say("again", settings=wish)).text == "gladly"
        assert [says(request.body) for request in t.server.requests] == [True, False, False]
        assert t.all_heard(RetryWait) == []


async def test_a_refusal_that_was_about_something_else_is_told_and_nothing_is_learned(talk):
    async with talk([Fail(400, message="your reasoning is poor", times=2), Say("ok")]) as t:
        with pytest.raises(SystemFault, match="your reasoning is poor"):
            await t.say("hello", settings=TurnSettings(thinking="high"))
        await t.turn(settings=TurnSettings(thinking="high"))
        one, two, three = (request.body for request in t.server.requests)
        assert one != two
        assert one == three


async def test_what_was_thought_is_counted_of_what_was_spent(talk):
    async with talk([Turn("hi", thinking="hm", usage=Usage(100, 50, thinking=30))]) as t:
        spent = (await t.say("hello", settings=TurnSettings(thinking="high"))).usage
        assert (spent.output, spent.thinking, spent.total) == (50, 30, 150)
        assert (spent + spent).thinking == 60
