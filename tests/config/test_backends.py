from __future__ import annotations

import pytest

from toolyard.config.backends import BACKENDS, PROVIDER_VARIABLES, backend_kind
from toolyard.config.loader import load_config
from toolyard.config.models import Backend, TeamLimits, Tracing
from toolyard.config.settings import Settings
from toolyard.core.errors import ConfigError


def backend_of(tmp_path, text: str) -> Backend:
    path = tmp_path / "toolyard.yaml"
    path.write_text(f"agents:\n  - id: a\n    backend:\n      {text}\n")
    return load_config(str(path), env={}).agents[0].backend


@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_every_name_of_the_table_is_a_type(tmp_path, name):
    backend = backend_of(tmp_path, f"type: {name}")
    assert backend.kind is BACKENDS[name]
    assert bool(backend.kind.api) != bool(backend.kind.driver)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("anthropic", "claude"),
        ("claude-code", "claude_code"),
        ("Claude Code", "claude_code"),
        ("Gemini-CLI", "gemini_cli"),
        ("llamacpp", "llama.cpp"),
        ("openai_compatible", "openai-compatible"),
        ("OpenAI", "openai"),
    ],
)
def test_a_type_is_known_however_it_is_spelled(tmp_path, written, meant):
    assert backend_of(tmp_path, f'type: "{written}"').type == meant


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("gemni", 'Did you mean "gemini"?'),
        ("claude_cod", 'Did you mean "claude_code"?'),
        ("gpt-4o", 'Did you mean "openai"? The name of a model belongs under `model`.'),
        ("gemini-2.5-flash", 'Did you mean "gemini"? The name of a model belongs under `model`.'),
        ("claude-sonnet-4-5", 'Did you mean "claude"? The name of a model belongs under `model`.'),
        ("zzzz", "Known here: anthropic, chatcompletion, claude, claude_code"),
    ],
)
def test_an_unknown_type_is_refused_with_its_line_and_what_was_meant(tmp_path, written, hint):
    with pytest.raises(ConfigError) as caught:
        backend_of(tmp_path, f"type: {written}")
    assert caught.value.where == f"{tmp_path}/toolyard.yaml:4"
    assert f'"agents[0].backend.type": "{written}" is not a known backend.' in caught.value.message
    assert caught.value.hint.startswith(hint)


def test_an_agent_without_a_type_is_allowed(tmp_path):
    assert backend_of(tmp_path, "cwd: work").kind is None


def test_servers_that_speak_openais_format_have_their_usual_addresses():
    found = {name: BACKENDS[name].base_url for name in ("openrouter", "ollama", "llama.cpp", "vllm")}
    assert found == {
        "openrouter": "https://openrouter.ai/api/v1",
        "ollama": "http://localhost:11434/v1",
        "llama.cpp": "http://localhost:8080/v1",
        "vllm": "http://localhost:8000/v1",
    }
    assert {BACKENDS[name].api for name in found} == {"openai"}


def test_a_name_that_is_none_has_no_kind():
    assert backend_kind("nothing of the sort") is None


def test_keys_and_addresses_of_every_provider_come_from_the_environment():
    env = {name: f"value of {name}" for name in PROVIDER_VARIABLES}
    settings = Settings.from_environment({**env, "OTHER_API_KEY": "no"})
    assert settings.model_access == env
    assert set(env) == {
        *("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
        *("OPENROUTER_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OLLAMA_BASE_URL"),
    }
    assert "value of" not in repr(settings)


def test_the_endpoint_of_traces_comes_from_the_environment():
    variables = {"HOME": "/h", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}
    assert Settings.from_environment(variables).trace_endpoint == "http://localhost:4318"
    assert Settings.from_environment({"HOME": "/h", "OTEL_EXPORTER_OTLP_ENDPOINT": ""}).trace_endpoint is None


@pytest.mark.parametrize(("written", "meant"), [("off", "off"), ("'off'", "off"), ("high", "high")])
def test_thinking_is_a_word_even_where_yaml_reads_it_as_false(tmp_path, written, meant):
    assert backend_of(tmp_path, f"thinking: {written}").thinking == meant


@pytest.mark.parametrize("written", ["hihg", "on", "3"])
def test_thinking_that_is_none_of_the_words_is_refused(tmp_path, written):
    with pytest.raises(ConfigError, match="must be one of off, minimal, low, medium, high"):
        backend_of(tmp_path, f"thinking: {written}")


def test_limits_of_a_run_have_defaults_that_end_it(tmp_path):
    path = tmp_path / "toolyard.yaml"
    path.write_text("orchestrator: {limits: {rounds: 2, cost: 0.5, tokens: 90000}}\n")
    limits = load_config(str(path), env={}).orchestrator.limits
    assert limits == TeamLimits(rounds=2, seconds=3600, tokens=90_000, cost=0.5, turns=100)


@pytest.mark.parametrize("wrong", ["rounds: 0", "turns: -1", "seconds: .inf", "tokens: many", "cost: 0", "round: 1"])
def test_limits_that_end_nothing_are_refused(tmp_path, wrong):
    path = tmp_path / "toolyard.yaml"
    path.write_text(f"orchestrator:\n  limits:\n    {wrong}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(str(path), env={})
    assert caught.value.where == f"{path}:3"


def test_traces_go_nowhere_unless_an_endpoint_is_given_and_their_headers_are_not_shown(tmp_path):
    path = tmp_path / "toolyard.yaml"
    path.write_text("tracing:\n  endpoint: http://localhost:4318\n  headers: {authorization: 'Bearer ${TOKEN}'}\n")
    tracing = load_config(str(path), env={"TOKEN": "hush"}).tracing
    assert tracing == Tracing(endpoint="http://localhost:4318", headers={"authorization": "Bearer hush"})
    assert tracing.service_name == "toolyard"
    assert "hush" not in repr(tracing)
    assert Tracing().endpoint is None
