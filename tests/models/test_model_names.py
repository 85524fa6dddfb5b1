"""A model is named as people name it, and what is not said follows from the keys that are there."""

from __future__ import annotations

import pytest

from toolyard.config.assistant import Assistant
from toolyard.config.settings import Settings
from toolyard.core.errors import ConfigError
from toolyard.models.endpoint import resolve_endpoint
from toolyard.models.error_wording import ASSISTANT_WORDING
from toolyard.models.factory import open_model
from toolyard.models.model_names import ModelChoice, choose_model

OWN_SERVER = {"OPENAI_BASE_URL": "http://localhost:8080/v1"}
KEYS = ("GEMINI_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY")


def chosen(
    model: str | None = None, variables: dict[str, str] | None = None, tool: str = "chat", **keys: object
) -> ModelChoice:
    settings = Settings.from_environment({"HOME": "/home/ada", **(variables or {})})
    return choose_model(Assistant(model=model, **keys), settings, tool)


def meant(model: str, variables: dict[str, str] | None = None) -> tuple[str, str | None, str | None]:
    found = chosen(model, variables)
    return found.name, found.backend.type, found.backend.model


@pytest.mark.parametrize(
    ("name", "shown", "kind"),
    [
        ("google:gemini-2.5-pro", "google:gemini-2.5-pro", "gemini"),
        ("google-gla:gemini-2.5-pro", "google:gemini-2.5-pro", "gemini"),
        ("gemini:gemini-3-pro-preview", "google:gemini-3-pro-preview", "gemini"),
        ("openai:gpt-5", "openai:gpt-5", "openai"),
        ("openai-chat:gpt-5", "openai:gpt-5", "openai"),
        ("OpenAI: gpt-5 ", "openai:gpt-5", "openai"),
        ("anthropic:claude-opus-5", "anthropic:claude-opus-5", "claude"),
        ("claude:claude-opus-5", "anthropic:claude-opus-5", "claude"),
        ("openrouter:meta-llama/llama-3:free", "openrouter:meta-llama/llama-3:free", "openrouter"),
        ("ollama:llama3:8b", "ollama:llama3:8b", "ollama"),
        ("llama.cpp:qwen", "llama.cpp:qwen", "llama.cpp"),
        ("llama.cpp:", "llama.cpp:default", "llama.cpp"),
        ("vllm:mistral", "vllm:mistral", "vllm"),
        ("lmstudio:phi", "lmstudio:phi", "lmstudio"),
    ],
)
def test_a_provider_before_the_colon_says_whose_model_it_is(name, shown, kind):
    assert meant(name) == (shown, kind, shown.partition(":")[2])


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("gemini-2.5-flash", "google:gemini-2.5-flash"),
        ("gpt-5-mini", "openai:gpt-5-mini"),
        ("o3", "openai:o3"),
        ("o4-mini", "openai:o4-mini"),
        ("claude-haiku-4-5", "anthropic:claude-haiku-4-5"),
        ("pro", "google:gemini-2.5-pro"),
        ("flash", "google:gemini-2.5-flash"),
        ("gpt", "openai:gpt-5"),
        ("sonnet", "anthropic:claude-sonnet-5"),
        ("opus", "anthropic:claude-opus-5"),
        ("gemini", "google:gemini-2.5-pro"),
        ("anthropic", "anthropic:claude-sonnet-5"),
        ("openai:", "openai:gpt-5"),
    ],
)
def test_names_without_a_provider_are_known_by_their_beginning_and_short_ones_by_heart(name, shown):
    assert chosen(name).name == shown


@pytest.mark.parametrize("name", ["openai-chat:llama3", "openai:llama3", "llama3", "gpt-oss:20b", "gpt-5"])
def test_with_another_address_of_openai_the_model_is_asked_there_and_needs_no_key(name):
    found = chosen(name, OWN_SERVER)
    place = resolve_endpoint(found.backend, OWN_SERVER, ASSISTANT_WORDING)
    assert found.name == f"openai-chat:{name.removeprefix('openai-chat:').removeprefix('openai:')}"
    assert (place.kind.name, place.address, place.key) == ("openai-compatible", "http://localhost:8080/v1", "")


def test_the_address_of_openai_itself_is_no_other_server():
    variables = {"OPENAI_BASE_URL": "https://api.openai.com/v1"}
    assert meant("openai-chat:gpt-5", variables) == ("openai:gpt-5", "openai", "gpt-5")


def test_a_server_of_ones_own_without_an_address_is_asked_for_it():
    with pytest.raises(ConfigError, match=r"address of the .* is not set") as raised:
        resolve_endpoint(chosen("openai-chat:llama3").backend, {}, ASSISTANT_WORDING)
    assert raised.value.hint == "Set OPENAI_BASE_URL."


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gogle:gemini-2.5-pro", 'Did you mean "google:"'),
        ("groq:llama", "set OPENAI_BASE_URL"),
        ("sonet", 'Did you mean "sonnet"'),
        ("olmo", "Write its provider before it"),
        ("ollama", "ollama:NAME"),
        ("openai-chat:", "openai-chat:NAME"),
    ],
)
def test_a_name_that_means_nothing_is_answered_with_what_to_write(name, words):
    with pytest.raises(ConfigError) as raised:
        chosen(name)
    assert name in str(raised.value)
    assert words in raised.value.hint


def test_aliases_of_the_user_lead_on_and_go_before_ours():
    aliases = {"fast": "quick", "quick": "flash", "pro": "openai:gpt-5"}
    assert [chosen(name, aliases=aliases).name for name in ("fast", "pro")] == [
        "google:gemini-2.5-flash",
        "openai:gpt-5",
    ]


def test_aliases_that_lead_in_a_circle_are_shown():
    with pytest.raises(ConfigError, match="one → two → one"):
        chosen("one", aliases={"one": "two", "two": "one"})


def test_the_environment_goes_before_the_file_and_there_the_tool_before_all_tools():
    keys = {"model": "flash", "models": {"thinkdeep": "opus"}}
    assert chosen(tool="chat", **keys).name == "google:gemini-2.5-flash"
    assert chosen(tool="thinkdeep", **keys).name == "anthropic:claude-opus-5"
    assert chosen(variables={"TOOLYARD_MODEL": "gpt"}, tool="thinkdeep", **keys).name == "openai:gpt-5"


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        (KEYS, "google:gemini-2.5-pro"),
        (("GOOGLE_API_KEY",), "google:gemini-2.5-pro"),
        (KEYS[1:], "openai:gpt-5"),
        (KEYS[2:], "anthropic:claude-sonnet-5"),
        (KEYS[3:], "openrouter:openrouter/auto"),
        ((), "google:gemini-2.5-pro"),
    ],
)
def test_where_none_is_named_it_is_a_model_whose_key_is_there(present, expected):
    assert chosen(variables=dict.fromkeys(present, "k")).name == expected


def test_a_provider_on_this_machine_is_as_good_as_a_key():
    variables = {"GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:9", "OPENAI_API_KEY": "k"}
    assert chosen(variables=variables).name == "google:gemini-2.5-pro"


def test_which_model_another_server_has_is_not_guessed():
    with pytest.raises(ConfigError, match="no model of that server is named") as raised:
        chosen(variables={**OWN_SERVER, "OPENAI_API_KEY": "k"})
    assert "TOOLYARD_MODEL" in raised.value.hint
    assert chosen(variables={**OWN_SERVER, "ANTHROPIC_API_KEY": "k"}).name == "anthropic:claude-sonnet-5"


def test_without_any_key_opening_names_the_variables():
    found = chosen()
    with pytest.raises(ConfigError, match="There is no key for Gemini API") as raised:
        open_model(found.backend, {}, wording=ASSISTANT_WORDING)
    assert "GEMINI_API_KEY or GOOGLE_API_KEY" in raised.value.hint
    assert "TOOLYARD_MODEL" in raised.value.hint
    assert "backend" not in raised.value.hint


@pytest.mark.parametrize(
    ("allowed", "name", "variables"),
    [
        (("google:gemini-*",), "flash", {}),
        (("gemini:*",), "google:gemini-2.5-pro", {}),
        (("gemini-2.5-*",), "pro", {}),
        (("openai:*",), "openai-chat:llama3", OWN_SERVER),
        (("openai-chat:llama*",), "llama3", OWN_SERVER),
        (("anthropic:claude-opus-5", "google:*"), "opus", {}),
    ],
)
def test_an_allowed_model_is_allowed_however_it_is_spelled(allowed, name, variables):
    assert chosen(name, variables, allowed_models=allowed)


def test_other_models_than_the_allowed_are_refused_with_the_list():
    with pytest.raises(ConfigError, match=r"openai:gpt-5 is not one of the allowed models: google:\*, \*:claude-\*"):
        chosen("gpt", allowed_models=("google:*", "*:claude-*"))


def test_an_alias_does_not_lead_around_the_list():
    with pytest.raises(ConfigError, match="openai:gpt-5 is not one"):
        chosen("google:gemini-2.5-pro", aliases={"google:gemini-2.5-pro": "gpt"}, allowed_models=("google:*",))


def test_where_none_is_named_it_is_an_allowed_one():
    variables = dict.fromkeys(KEYS, "k")
    assert chosen(variables=variables, allowed_models=("anthropic:*",)).name == "anthropic:claude-sonnet-5"
    with pytest.raises(ConfigError, match="not one of the allowed"):
        chosen(variables=variables, allowed_models=("ollama:*",))
