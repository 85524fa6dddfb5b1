"""Each focus area has its answer, or is told to be missing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.assistant.focus_areas import AreaAnswer, FocusAreaAnswers, read_areas
from toolyard.assistant.json_extraction import NotJson

WANTED = ("performance", "resource_management")
BOTH = (AreaAnswer("performance", "fast"), AreaAnswer("resource_management", "little"))


@pytest.mark.parametrize(
    "reply",
    [
        {"areas": [{"area": "performance", "answer": "fast"}, {"area": "resource_management", "answer": "little"}]},
        {
            "areas": [
                {"area": "Resource Management", "answer": "little"},
                {"name": "PERFORMANCE:", "analysis": "fast"},
            ]
        },
        {"areas": {"Performance": "fast", "resource-management": {"answer": "little"}}},
        {
            "focus_areas": [
                {"area": "1. Performance", "answer": "fast\n"},
                {"area": "**ResourceManagement**", "text": "little"},
            ]
        },
        [{"area": "performance", "answer": "fast"}, {"area": "resource management", "answer": "little"}],
        {"performance": "fast", "resource_management": "little"},
    ],
)
def test_answers_come_as_they_were_asked_for_in_every_usual_shape(reply):
    assert read_areas(reply, WANTED) == FocusAreaAnswers(BOTH, ())


def test_what_has_no_answer_is_missing_and_what_was_not_asked_is_left_out():
    reply = {
        "summary": " in short ",
        "areas": [
            {"area": "performance", "answer": "fast", "confidence": 0.8},
            {"area": "resource_management", "answer": "  "},
            {"area": "style", "answer": "nice"},
            {"answer": "nameless"},
            "stray",
            None,
        ],
    }
    assert read_areas(reply, WANTED) == FocusAreaAnswers(
        (AreaAnswer("performance", "fast", "0.8"),), ("resource_management",), "in short"
    )


def test_of_two_answers_to_one_area_the_first_counts():
    reply = {"areas": [{"area": "a", "answer": ""}, {"area": "A", "answer": "one"}, {"area": "a", "answer": "two"}]}
    assert read_areas(reply, ["a"]).answers == (AreaAnswer("a", "one"),)


def test_an_area_that_is_asked_for_twice_is_answered_once():
    assert read_areas({"a b": "x"}, ["a_b", "A B", "a_b"]).answers == (AreaAnswer("a_b", "x"), AreaAnswer("A B", "x"))


def test_answers_that_are_no_text_are_made_one():
    reply = {"a": ["one", "two"], "b": {"risk": 1}, "c": {"answer": [1]}, "d": 3, "e": False}
    answers = {each.area: each.answer for each in read_areas(reply, list("abcde")).answers}
    assert answers == {"a": "- one\n- two", "b": '{"risk": 1}', "c": "[1]", "d": "3", "e": "false"}


def test_an_answer_that_is_no_text_is_told_at_about_the_length_of_what_was_said():
    reply = {"a": [0] * 300_000, "b": ["x"] * 300_000}
    assert [len(each.answer) for each in read_areas(reply, ["a", "b"]).answers] == [100_001, 100_001]


@pytest.mark.parametrize("where", ["answer", "area", "confidence"])
def test_what_is_nested_deeply_is_refused(where):
    nested: object = 0
    for _ in range(900):
        nested = [nested]
    with pytest.raises(NotJson, match="nested deeper than 20"):
        read_areas({"areas": [{"area": "a", "answer": "x", where: nested}]}, ["a"])


def test_signs_that_make_a_name_are_part_of_it():
    assert read_areas({"C#": "sharp", "C++": "plus"}, ["c++", "c"]).answers == (AreaAnswer("c++", "plus"),)


def test_numbers_that_belong_to_a_name_are_part_of_it():
    reply = {"areas": [{"area": "2 phase commit", "answer": "x"}, {"area": "3 phase commit", "answer": "y"}]}
    assert [each.answer for each in read_areas(reply, ["3 phase commit", "2-phase commit"]).answers] == ["y", "x"]


@pytest.mark.parametrize("reply", ["text", 5, None, True, {"areas": "text"}, {"areas": None}])
def test_a_reply_of_another_shape_is_refused(reply):
    with pytest.raises(NotJson, match='not an object with "areas"'):
        read_areas(reply, ["a"])


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["areas", "area", "answer", "a", "summary"]), inner)
    ),
)


@given(VALUES, st.lists(st.text(max_size=5)))
def test_every_area_is_either_answered_or_missing(reply, wanted):
    try:
        found = read_areas(reply, wanted)
    except NotJson:
        return
    assert sorted({*wanted}) == sorted([*found.missing, *(each.area for each in found.answers)])
    for each in found.answers:
        assert each.answer.encode()
