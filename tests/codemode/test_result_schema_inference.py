"""What a result's shape is taken to be, from one result."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.codemode.result_schema_inference import infer_result_schema
from toolyard.core.upstream import UpstreamResult


def text(value: str) -> UpstreamResult:
    return UpstreamResult(({"type": "text", "text": value},))


def test_structured_content_is_described_by_its_keys() -> None:
    answer = UpstreamResult((), {"id": 1, "tags": ["a"], "owner": {"name": "x", "age": None}})
    assert infer_result_schema(answer) == {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "owner": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "age": {"type": "null"}},
                "required": ["name", "age"],
            },
        },
        "required": ["id", "tags", "owner"],
    }


def test_json_in_the_only_text_counts_too() -> None:
    assert infer_result_schema(text(' [{"a": 1}, {"a": 2, "b": "x"}]')) == {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
            "required": ["a"],
        },
    }


@pytest.mark.parametrize(
    "answer",
    [
        text("plain words"),
        text("{not json"),
        text("3"),
        text("[" * 100_000),
        text("{}"),
        UpstreamResult(({"type": "image", "data": "", "mimeType": "image/png"},)),
        UpstreamResult((), "just text"),
        UpstreamResult((), {"a": 1}, is_error=True),
        UpstreamResult((), {"rows": [{"a": n} for n in range(5_000)]}),
    ],
)
def test_where_there_is_no_shape_none_is_learnt(answer: UpstreamResult) -> None:
    assert infer_result_schema(answer) is None


def test_keys_that_are_data_become_a_mapping() -> None:
    assert infer_result_schema(UpstreamResult((), {"2026-01-01": 1, "2026-01-02": 2.5})) == {
        "type": "object",
        "additionalProperties": {"anyOf": [{"type": "integer"}, {"type": "number"}]},
    }


def test_no_value_gets_into_it() -> None:
    assert "hunter2" not in json.dumps(
        infer_result_schema(UpstreamResult((), {"password": "hunter2", "more": ["hunter2"]}))
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=30,
)


@settings(deadline=None)
@given(st.lists(JSON, min_size=1, max_size=5) | st.dictionaries(st.text(max_size=8), JSON, min_size=1, max_size=5))
def test_the_result_it_was_learnt_from_is_one_of_those_it_describes(value: Any) -> None:
    schema = infer_result_schema(UpstreamResult((), value))
    assert schema is not None
    jsonschema.validate(value, schema)


@pytest.mark.parametrize(("depth", "width"), [(4, 8), (2, 40), (3, 16), (5, 5)])
def test_a_shape_is_never_longer_than_a_reader_takes_in(depth: int, width: int) -> None:
    def nested(left: int, name: str) -> Any:
        names = (f"{name}{n}_{'x' * 60}"[:60] for n in range(width))
        return {each: nested(left - 1, each[:10]) for each in names} if left else 1

    shape = infer_result_schema(UpstreamResult((), nested(depth, "k")))
    assert shape is not None
    assert len(shape["properties"]) == width
    assert len(json.dumps(shape)) <= 8_000


def test_names_that_are_too_long_to_show_are_not_learnt() -> None:
    assert (
        infer_result_schema(UpstreamResult((), {"\U00020000" * 60 + str(n): 1 for n in range(30)})) is not None
    )  # a mapping
    assert infer_result_schema(UpstreamResult((), {"\U00020000" * 50 + str(n): 1 for n in range(30)})) is None
