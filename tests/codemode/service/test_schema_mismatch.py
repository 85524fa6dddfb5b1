"""A refused call is explained as far as the schema leaves no doubt, and never before the server has refused it."""

from __future__ import annotations

from typing import Any

import pytest

from toolyard.codemode.schema_mismatch import add_mismatch_hint, schema_mismatches
from toolyard.core.errors import FieldError, ToolError, ValidationError

from .conftest import Place, printed, tool

SCHEMA: dict[str, Any] = {
    "properties": {
        "path": {"type": "string"},
        "limit": {"type": "integer"},
        "ratio": {"type": "number"},
        "deep": {"type": "boolean"},
        "order": {"enum": ["up", "down"]},
        "names": {"type": ["array", "null"]},
        "either": {"type": "string", "anyOf": [{"type": "integer"}]},
        "anything": True,
    },
    "required": ["path"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "The argument 'path' is missing."),
        ({"path": 5}, "'path' has to be a string, and is 5."),
        ({"path": "a", "limit": "ten"}, """'limit' has to be an integer, and is the string "ten"."""),
        ({"path": "a", "limit": True}, "'limit' has to be an integer, and is true."),
        ({"path": "a", "limit": 1.5}, "'limit' has to be an integer, and is 1.5."),
        ({"path": "a", "deep": 1}, "'deep' has to be a boolean, and is 1."),
        ({"path": "a", "order": "left"}, """'order' has to be one of "up", "down", and is the string "left"."""),
        ({"path": "a", "names": {"b": 1}}, "'names' has to be an array or null, and is an object."),
        ({"path": "a", "limti": 3}, """There is no argument 'limti'. Did you mean "limit"?"""),
    ],
    ids=str,
)
def test_what_is_certainly_not_as_the_schema_asks_is_said(given: dict[str, Any], said: str) -> None:
    assert schema_mismatches(SCHEMA, given) == (said,)


def test_however_large_a_value_is_little_of_it_is_said() -> None:
    given = {"path": 10**5_000, "limit": "y" * 10_000_000, "ratio": [0] * 1_000_000, "x" * 10_000_000: 1}
    found = schema_mismatches(SCHEMA, given)
    assert [line[:50] for line in found[:3]] == [
        "'path' has to be a string, and is a very large int",
        "'limit' has to be an integer, and is the string \"y",
        "'ratio' has to be a number, and is an array.",
    ]
    assert max(map(len, found)) < 300


@pytest.mark.parametrize(
    "given",
    [
        {"path": "a", "limit": 2, "ratio": 1, "deep": False, "order": "up", "names": None},
        {"path": "a", "limit": 2.0, "ratio": 0.5, "names": []},
        {"path": "a", "either": 5, "anything": object},
    ],
)
def test_what_fits_or_is_in_doubt_is_left_to_the_server(given: dict[str, Any]) -> None:
    assert schema_mismatches(SCHEMA, given) == ()


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": []},
        {"properties": {"x": {"type": "strnig"}}, "required": True},
        {"properties": {"x": {"type": 5, "enum": "no"}}, "required": ["y", 3]},
        {"properties": {"x": {"type": ["string", "odd"]}}},
        {"properties": {"y": {}}, "anyOf": [{"properties": {"x": {}}}], "additionalProperties": False},
    ],
    ids=str,
)
def test_a_schema_that_is_none_explains_nothing(schema: dict[str, Any]) -> None:
    assert schema_mismatches(schema, {"x": 5}) == ()


def test_what_an_error_says_of_an_argument_is_not_said_again() -> None:
    fields = tuple(FieldError(name, "is not an argument of this tool") for name in ("x", "y"))
    error = ValidationError("x: is not an argument of a.b", fields, hint="Known here: path.")
    found = ("'path' has to be a string, and is 1.", "There is no argument 'x'. No.", "There is no argument 'y'. No.")
    assert str(add_mismatch_hint(error, "a.b", found)) == (
        "x: is not an argument of a.b. Known here: path. "
        "By the schema of a.b: 'path' has to be a string, and is 1. There is no argument 'y'. No."
    )
    refused = ToolError("Server 'a' refused b: no", hint="Look at its file.")
    assert add_mismatch_hint(refused, "a.b", found[:1]).hint == f"By the schema of a.b: {found[0]} Look at its file."


async def test_code_is_told_why_a_server_may_have_refused_and_only_then(place: Place) -> None:
    count = {"type": "integer"}
    place.server("one", tool("broken", "Fails.", count=count), tool("send", "Works.", count=count))
    place.sync()
    yard = place.open()
    said = await printed(yard, "from servers.one import broken\nawait broken(count='two')")
    assert said == """By the schema of one.broken: 'count' has to be an integer, and is the string "two"."""
    failed = await printed(yard, "from servers.one import broken\nawait broken(count=2)")
    assert "By the schema" not in failed
    code = "from servers.one import send\nprint((await send(count='two')).structured['given'])"
    assert await printed(yard, code) == "{'count': 'two'}"  # the server took it
