"""A tool checks its arguments and says what is wrong with each."""

from dataclasses import replace
from typing import Annotated

import pytest
from pydantic import Field

from tests.support.dispatch_probe import done
from toolyard.core.errors import FieldError, ValidationError
from toolyard.dispatch.tool import STRINGS, Arguments, Tool, output_schema


class Item(Arguments):
    title: str


class Sample(Arguments):
    file_path: Annotated[str, Field(description="Where")]
    limit: Annotated[int, Field(ge=1)] = 5
    dash: Annotated[bool, Field(alias="-i")] = False
    items: list[Item] = []


TOOL = Tool("Sample", "A sample.", Sample, output_schema(), lambda arguments, gate: done(""), "read")


def fields(raw):
    with pytest.raises(ValidationError) as caught:
        TOOL.parse_arguments(raw)
    return caught.value.fields


def test_right_arguments_become_the_tools_own_type():
    checked = TOOL.parse_arguments({"file_path": "a", "-i": True, "items": [{"title": "t"}]})

    assert checked == Sample.model_construct(file_path="a", limit=5, dash=True, items=[Item(title="t")])


@pytest.mark.parametrize(
    ("raw", "wrong"),
    [
        ({}, (FieldError("file_path", "is required"),)),
        ({"file_path": 3}, (FieldError("file_path", "input should be a valid string"),)),
        ({"file_path": None}, (FieldError("file_path", "input should be a valid string"),)),
        ({"file_path": "a", "limit": "5"}, (FieldError("limit", "input should be a valid integer"),)),
        ({"file_path": "a", "limit": True}, (FieldError("limit", "input should be a valid integer"),)),
        ({"file_path": "a", "limit": 0}, (FieldError("limit", "input should be greater than or equal to 1"),)),
        ({"file_path": "a", "dash": True}, (FieldError("dash", "is not an argument of this tool"),)),
        ({"file_path": "a", "items": [{}]}, (FieldError("items.0.title", "is required"),)),
    ],
)
def test_each_wrong_argument_is_named(raw, wrong):
    assert fields(raw) == wrong


def test_every_fault_is_listed_and_the_hint_says_what_the_tool_takes():
    with pytest.raises(ValidationError) as caught:
        TOOL.parse_arguments({"file_pat": "a", "limit": 0})

    assert [field.field for field in caught.value.fields] == ["file_path", "limit", "file_pat"]
    assert caught.value.hint == "Sample takes file_path (required), limit, -i, items."


def test_a_misspelled_argument_gets_the_likely_one():
    with pytest.raises(ValidationError) as caught:
        TOOL.parse_arguments({"file_path": "a", "limits": 3})

    assert caught.value.hint.endswith("Did you mean limit?")


def test_a_long_list_of_faults_is_cut_in_the_message_and_whole_in_the_data():
    with pytest.raises(ValidationError) as caught:
        TOOL.parse_arguments({"file_path": "a", **{f"odd{number}": 1 for number in range(20)}})

    assert len(caught.value.fields) == 20
    assert caught.value.message.count("is not an argument") == 5


def test_values_never_appear_in_the_error():
    with pytest.raises(ValidationError) as caught:
        TOOL.parse_arguments({"file_path": ["hunter2"]})

    assert "hunter2" not in str(caught.value)


def test_the_schema_says_what_a_model_needs_and_keeps_an_argument_called_title():
    assert TOOL.input_schema["properties"] == {
        "file_path": {"type": "string", "description": "Where"},
        "limit": {"type": "integer", "minimum": 1},
        "-i": {"type": "boolean"},
        "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
    }
    assert TOOL.input_schema["$defs"]["Item"]["properties"] == {"title": {"type": "string"}}
    assert TOOL.input_schema["required"] == ["file_path"]
    assert TOOL.input_schema["additionalProperties"] is False


def test_an_output_schema_is_made_of_names_and_types():
    assert output_schema(("note",), path="string", files=STRINGS, note="string") == {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "files": {"type": "array", "items": {"type": "string"}},
            "note": {"type": "string"},
        },
        "required": ["path", "files"],
    }


def test_defaults_are_told_where_the_tool_wants_it_so_and_only_those_that_say_something():
    told = replace(TOOL, shows_defaults=True).input_schema["properties"]

    assert {name: argument["default"] for name, argument in told.items() if "default" in argument} == {
        "limit": 5,
        "-i": False,
    }
    assert not any("default" in argument for argument in TOOL.input_schema["properties"].values())
