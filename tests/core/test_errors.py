"""Each error carries the code, the structured half and the next step that cross the wire."""

import pytest

from toolyard.core.errors import (
    ConfigError,
    FieldError,
    ProviderError,
    SecurityError,
    SystemFault,
    ToolError,
    ToolyardError,
    ValidationError,
)


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (SecurityError("no"), -32001, "security"),
        (ValidationError("no"), -32602, "validation"),
        (ToolError("no"), -32603, "tool"),
        (ProviderError("no"), -32603, "tool"),
        (SystemFault("no"), -32000, "system"),
        (ConfigError("no"), -32000, "config"),
    ],
)
def test_every_error_has_its_code_and_is_one_of_ours(error, code, kind):
    assert (error.code, error.kind, isinstance(error, ToolyardError)) == (code, kind, True)


def test_the_structured_half_says_kind_hint_and_whether_a_retry_helps():
    error = ToolError("locked", hint="Try again.", retryable=True)

    assert error.data() == {"kind": "tool", "hint": "Try again.", "retryable": True}


@pytest.mark.parametrize("kind", [ProviderError, SystemFault, ConfigError])
def test_what_programs_want_to_know_beside_the_words_is_in_the_structured_half(kind):
    error = kind("busy", hint="Wait.", facts={"provider_status": 429, "retry_after": 2.5})

    assert error.data() == {
        "kind": error.kind,
        "hint": "Wait.",
        "retryable": False,
        "provider_status": 429,
        "retry_after": 2.5,
    }


def test_a_validation_error_lists_its_fields():
    error = ValidationError("two faults", (FieldError("a", "is required"), FieldError("b", "is odd")), hint="Mend.")

    assert error.data() == {
        "kind": "validation",
        "hint": "Mend.",
        "retryable": False,
        "validation_errors": [{"field": "a", "error": "is required"}, {"field": "b", "error": "is odd"}],
    }


def test_a_refusal_lists_its_fields_where_it_knows_them():
    error = SecurityError("outside", (FieldError("files", "lies outside"),), hint="Name another.")

    assert error.data() == {
        "kind": "security",
        "hint": "Name another.",
        "retryable": False,
        "validation_errors": [{"field": "files", "error": "lies outside"}],
    }
    assert "validation_errors" not in SecurityError("no").data()


def test_one_wrong_field_names_itself_in_the_message():
    error = ValidationError.of("path", "is empty", hint="Send one.")

    assert (str(error), error.fields) == ("path: is empty. Send one.", (FieldError("path", "is empty"),))


@pytest.mark.parametrize(
    ("message", "hint", "text"),
    [
        ("It failed", "", "It failed"),
        ("It failed", "Mend it.", "It failed. Mend it."),
        ("It failed.", "Mend it.", "It failed. Mend it."),
        ("Why?", "Look.", "Why? Look."),
    ],
)
def test_message_and_hint_read_as_sentences(message, hint, text):
    assert str(ToolError(message, hint=hint)) == text


def test_a_config_error_begins_with_the_place():
    error = ConfigError("is wrong", where="toolyard.yaml:3", hint="Mend it.")

    assert (str(error), error.where) == ("toolyard.yaml:3: is wrong. Mend it.", "toolyard.yaml:3")
