"""The JSON of a reply is found whatever stands around it, and nothing is taken for it that is not the whole."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.assistant.json_extraction import MOST_CHARS, NotJson, extract_json, fenced_blocks
from toolyard.core.errors import ToolError

LONGEST_SECONDS = 10.0

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
CONTAINERS = st.lists(VALUES) | st.dictionaries(st.text(), VALUES)
PROSE = st.text(st.characters(exclude_characters="{}[]`~<>", codec="utf-8"), max_size=60)
DUMPED = {"indent": 2}, {"ensure_ascii": False}, {}


@settings(max_examples=60)
@given(CONTAINERS, PROSE, PROSE, st.sampled_from(DUMPED))
def test_any_object_or_array_in_prose_is_found_again(value, before, after, how):
    assert extract_json(f"{before}\n{json.dumps(value, **how)}\n{after}") == value


@given(VALUES, PROSE, PROSE, st.sampled_from(["```json", "```", "~~~", "  ```JSON5 x"]), st.sampled_from(DUMPED))
def test_any_value_in_a_code_block_is_found_again(value, before, after, fence, how):
    end = fence.strip()[:3]
    assert extract_json(f"{before}\n{fence}\n{json.dumps(value, **how)}\n{end}\n{after}") == value


@given(VALUES, st.sampled_from(["<think>", "<thinking>", ""]), PROSE)
def test_any_value_after_thoughts_is_found_again(value, begin, thoughts):
    end = "</thinking>" if begin == "<thinking>" else "</think>"
    assert extract_json(f"\ufeff \n{begin}I see [1] and {{it}}. {thoughts}\n{end}\n\n{json.dumps(value)}") == value


@given(st.text() | st.text('[]{}",:\\ \n`a1<think>/'))
def test_any_text_has_a_value_or_a_reason(text):
    try:
        extract_json(text)
    except NotJson as fault:
        assert fault.reason


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2,],}', {"a": [1, 2]}),
        ('{"a": 1 ,\n }', {"a": 1}),
        ('Here: [{"a": "x,}", "b": "y,]"},]', [{"a": "x,}", "b": "y,]"}]),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('As [1] says, {see below}: {"a": [2]}. Done {ok}.', {"a": [2]}),
        ('The 5" pipe: {"a": "b"}', {"a": "b"}),
        ('First\n```\n{"a": 1}\n```\nbut really\n```\n{"a": 1, "b": 2}\n```', {"a": 1, "b": 2}),
        ('Note: {"a": "see\n```\n[1]\n```\n"}', {"a": "see\n```\n[1]\n```\n"}),
        ('{"a": "</think>"}', {"a": "</think>"}),
        ('{"a": "<think>"} is it', {"a": "<think>"}),
        ("```json\n[1]", [1]),
        (" null ", None),
    ],
)
def test_what_models_do_to_json_is_understood(text, value):
    assert extract_json(text) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        (" \n\ufeff", "it is empty"),
        ("I cannot do that.", "there is no JSON in it"),
        ("<think>hm", "it ends within the model's thoughts"),
        ('{"findings": [{"a": 1}, {"b": ', "Expecting value at line 1, column 30"),
        ('As in [1]: {"findings": [{"a": 1}, {"b": "cut he', "Unterminated string starting at"),
        ('{"a": 1 "b": 2}', "Expecting ',' delimiter"),
        ("{'a': 1}", "Expecting property name"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": ' + "9" * 5000 + "}", "digits"),
        ("[" * 100_000, "nested too deeply"),
        ("x" * (MOST_CHARS + 1), "longer than"),
    ],
)
def test_what_is_not_the_whole_of_it_is_refused_with_the_reason(text, reason):
    with pytest.raises(NotJson) as caught:
        extract_json(text)
    assert reason in caught.value.reason
    assert not caught.value.reason.endswith(".")


def test_commas_without_end_are_not_taken_out():
    with pytest.raises(NotJson, match="too many commas"):
        extract_json("x " + "[" * 30 + "1" + ",]" * 30)


def test_commas_in_what_turns_out_to_be_broken_count_as_well():
    started = time.monotonic()
    with pytest.raises(NotJson, match="too many commas"):
        extract_json(("[" + "[1,]," * 18 + " " * 30 + "x ") * 8_000)
    assert time.monotonic() - started < 5


def test_the_error_of_a_reply_is_one_of_the_tool():
    with pytest.raises(ToolError, match=r"not the requested JSON: there is no JSON in it\. Ask again"):
        extract_json("no")


@pytest.mark.parametrize(
    "unit",
    ["{", "{]", '{"', '["', "[a", '{"a":', "[1,", ",]", "```\n", "[ ", '\\"{', "{ ,}", "</think>", '{"a":1},', " "],
)
def test_a_megabyte_of_anything_takes_no_longer_than_a_megabyte(unit):
    begun = time.monotonic()
    whole = unit * ((MOST_CHARS - 2) // len(unit))
    for text in (whole, f"x {whole}"):
        try:
            extract_json(text)
        except NotJson as fault:
            assert len(fault.reason) < 1_000
    assert time.monotonic() - begun < LONGEST_SECONDS


def test_code_blocks_are_told_by_their_fences():
    assert fenced_blocks("a\n```py\nx = 1\n\ny\n```\nb\n~~~\n```\n~~~\n```\nopen") == ("x = 1\n\ny", "```", "open")
    assert fenced_blocks("none ``` here") == ()
