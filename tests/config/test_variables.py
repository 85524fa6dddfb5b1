"""Variables in a configuration: their values are used, and never shown where one goes wrong."""

from __future__ import annotations

import pytest

from toolyard.config.error_location import with_error_location
from toolyard.config.loader import load_config
from toolyard.core.errors import ConfigError

KEY = "super-secret-key-0123456789"
ENV = {"KEY": KEY, "WORD": "plan", "DIGITS": "0012345678"}


@pytest.fixture
def write(tmp_path, monkeypatch):
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)

    def _write(text: str) -> str:
        path = tmp_path.resolve() / "toolyard.yaml"
        path.write_text(text + "\n")
        return str(path)

    return _write


def test_they_are_taken_everywhere_and_what_was_written_is_remembered(write):
    path = write('permissions: {mode: "${WORD}", deny: ["Read(${KEY}/**)"]}')
    config = load_config(path)
    assert (config.permissions.mode, config.permissions.deny) == ("plan", (f"Read({KEY}/**)",))
    assert config.as_written(f"Read({KEY}/**)", "permissions", "deny", 0) == "Read(${KEY}/**)"
    assert config.as_written("Write", "permissions", "deny", 1) == "Write"
    assert KEY not in repr(config.templates)


WRONG = {
    "a backend": ('agents: [{id: a, backend: {type: "${KEY}"}}]', "${KEY}"),
    "one of several words": ('ui: {display_type: "${KEY}"}', "must be one of"),
    "a number that is too small": ('limits: {file_bytes: "-${DIGITS}"}', "${DIGITS}"),
    "a least size": ('toolyard: {code_execution: {limits: {processes: "${N:-3}"}}}', "${N:-3}"),
    "two numbers": ('toolyard: {code_execution: {limits: {seconds: "1${DIGITS}", most_seconds: 2}}}', "variables"),
    "a locale": ('assistant: {locale: "${KEY}"}', "letters, digits"),
    "a storage": ('assistant: {storage: "${KEY}"}', "expected"),
    "an id used twice": ('agents: [{id: "${KEY}"}, {id: "${KEY}"}]', "${KEY}"),
}


@pytest.mark.parametrize(("text", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_value_is_told_as_it_was_written(write, text, said):
    with pytest.raises(ConfigError) as caught:
        load_config(write(text))
    told = f"{caught.value} {caught.value.hint}"
    assert said in told
    assert not [value for value in (KEY, "12345678", '"3') if value in told]


def test_what_is_found_wrong_later_is_told_as_it_was_written(write):
    config = load_config(write('permissions: {deny: ["Bogus((${KEY}"]}'))
    with pytest.raises(ConfigError) as caught, with_error_location(config, "permissions", "deny", 0):
        raise ConfigError(f"{config.permissions.deny[0]} is wrong", hint=f"Not {KEY}.")
    assert "Bogus((${KEY}" in caught.value.message
    assert KEY not in caught.value.message + caught.value.hint
