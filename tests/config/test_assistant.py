"""The section of the assistant in a configuration file."""

import pytest

from toolyard.config.assistant import DEFAULT_RATES, Rate
from toolyard.config.loader import load_config
from toolyard.core.errors import ConfigError


@pytest.fixture
def loaded(tmp_path):
    def load(text):
        path = tmp_path / "toolyard.yaml"
        path.write_text(text)
        return load_config(str(path), env={}).assistant

    return load


def test_rates_are_written_as_calls_in_a_time(loaded):
    assistant = loaded("assistant: {rate_limits: {chat: 20/hour, debug: null}}\n")

    assert assistant.rate_for("chat") == Rate(20, 3_600.0)
    assert assistant.rate_for("debug") is None
    assert assistant.rate_for("precommit") == DEFAULT_RATES["precommit"] == Rate(3, 60.0)
    assert str(assistant.rate_for("chat")) == "20/hour"


@pytest.mark.parametrize(
    "text",
    [
        "{rate_limits: {chat: often}}",
        "{rate_limits: {chat: 0/minute}}",
        "{rate_limits: {chatt: 1/minute}}",
        "{storage: mysql://x}",
        "{thread_turns: 0}",
        "{temperature: 3}",
        "{modle: pro}",
        "{models: {review: pro}}",
    ],
)
def test_what_cannot_be_meant_is_an_error(loaded, text):
    with pytest.raises(ConfigError):
        loaded(f"assistant: {text}\n")


def test_where_redis_listens_is_kept_out_of_what_is_shown(loaded):
    assert "hunter2" not in repr(loaded("assistant: {storage: 'redis://:hunter2@localhost/0'}\n"))


@pytest.mark.parametrize(
    ("text", "exceeds"),
    [
        ("{}", False),
        ("{rate_limits: {chat: 5/minute}, limits: {files: 10}}", False),
        ("{rate_limits: {chat: null}}", True),
        ("{rate_limits: {chat: 11/minute}}", True),
        ("{rate_limits: {chat: 10/second}}", True),
        ("{limits: {context_tokens: 2000000}}", True),
    ],
)
def test_what_goes_beyond_the_defaults_is_known(loaded, text, exceeds):
    assert loaded(f"assistant: {text}\n").exceeds_defaults() is exceeds
