"""Which model is asked, and how."""

from toolyard.testing.mock_model import Say, Turn, Usage


def sent(served):
    return served.model.requests[-1].body


def test_thinking_modes_become_budgets_of_gemini(serve):
    served = serve(lambda _: Turn("yes", usage=Usage(10, 30, thinking=25)))
    budgets = []
    for mode in ("minimal", "low", "medium", "high", "max"):
        fields = served.ask("chat", prompt="x", thinking_mode=mode)
        budgets.append(sent(served)["generationConfig"]["thinkingConfig"]["thinking_budget"])

    assert budgets == [128, 2_048, 8_192, 16_384, 32_768]
    assert fields["thinking_tokens_used"] == 25
    assert fields["metadata"]["thinking_mode"] == "max"


def test_the_temperature_is_the_callers_or_the_tools_own(serve):
    served = serve(lambda _: Say("yes"))
    served.ask("chat", prompt="x", temperature=0.9)
    assert sent(served)["generationConfig"]["temperature"] == 0.9
    served.ask("chat", prompt="x")
    assert sent(served)["generationConfig"]["temperature"] == 0.5


def test_a_tool_may_have_a_model_of_its_own_by_an_alias(fresh):
    config = {
        "model": "pro",
        "models": {"thinkdeep": "quick"},
        "aliases": {"quick": "google:gemini-2.5-flash"},
        "temperature": 0.1,
        "locale": "de-DE",
    }
    served = fresh(lambda _: Say("ja"), config=config, TOOLYARD_MODEL="")

    assert served.ask("chat", prompt="x")["metadata"]["model"] == "google:gemini-2.5-pro"
    assert served.ask("thinkdeep", current_analysis="x")["metadata"]["model"] == "google:gemini-2.5-flash"
    assert sent(served)["generationConfig"]["temperature"] == 0.1
    assert "de-DE" in served.model.requests[-1].system


def test_a_server_that_speaks_as_openai_does_needs_no_key(fresh):
    served = fresh(Say("yes"), TOOLYARD_MODEL="openai-chat:llama3", OPENAI_API_KEY="", GEMINI_API_KEY="")

    assert served.ask("chat", prompt="x")["metadata"]["model"] == "openai-chat:llama3"
    assert sent(served)["model"] == "llama3"
