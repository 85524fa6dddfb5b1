from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.core.errors import ToolError, ValidationError
from toolyard.core.limits import DEFAULT_LIMITS
from toolyard.files.content.text import TextPage, decode, lines_around, text_page


def read(text: str, offset=None, limit=None, **limits) -> TextPage:
    return text_page(decode(text.encode()), offset, limit, replace(DEFAULT_LIMITS, **limits))


def test_lines_are_numbered_as_cat_does():
    assert read("one\ntwo\n") == TextPage("     1\tone\n     2\ttwo", "one\ntwo\n", "", 1, 2, 2, False)


def test_a_last_line_without_line_end_counts():
    assert read("one\ntwo") == TextPage("     1\tone\n     2\ttwo", "one\ntwo", "", 1, 2, 2, False)


def test_only_real_line_ends_end_a_line():
    assert (
        read("a\x0bb\x0cc\x85d\u2028e\x1cf\r\ng\rh\n").text
        == "     1\ta\x0bb\x0cc\x85d\u2028e\x1cf\n     2\tg\n     3\th"
    )


def test_an_empty_file_is_said_to_be_empty():
    assert read("") == TextPage("", "", "The file exists but is empty.", 1, 0, 0, False)


def test_a_page_says_how_to_read_on():
    expected = TextPage("     2\tb\n     3\tc", "b\nc\n", "Lines 2-3 of 4; use offset=4 to read on.", 2, 2, 4, True)

    assert read("a\nb\nc\nd\n", 2, 2) == expected


def test_the_last_page_says_only_where_it_stands():
    assert read("a\nb\nc\n", 3) == TextPage("     3\tc", "c\n", "Lines 3-3 of 3.", 3, 1, 3, True)


def test_the_usual_page_ends_at_the_line_limit():
    got = read("x\n" * 10, read_lines=4)

    assert (got.line_count, got.note) == (4, "Lines 1-4 of 10; use offset=5 to read on.")


def test_a_page_keeps_within_the_output_limit_at_a_line_boundary():
    got = read("12345\n" * 10, output_chars=40)

    assert (len(got.text), got.line_count, got.truncated) == (38, 3, True)


def test_a_page_of_one_enormous_line_still_makes_progress():
    got = read("x" * 1000 + "\ny\n", output_chars=50, line_chars=2000)

    assert (got.line_count, got.total_lines, got.note.startswith("Lines 1-1 of 2; use offset=2")) == (1, 2, True)


def test_a_long_line_is_cut_with_a_note():
    got = read("x" * 30 + "\nshort\n", line_chars=10)

    assert got == TextPage(
        f"     1\t{'x' * 10}... [cut: 10 of 30 characters]\n     2\tshort",
        f"{'x' * 10}... [cut: 10 of 30 characters]\nshort\n",
        "1 line longer than 10 characters cut; search for text to see the rest.",
        1,
        2,
        2,
        True,
    )


def test_an_offset_past_the_end_names_the_number_of_lines():
    with pytest.raises(ToolError) as refused:
        read("a\nb\n", 3)

    assert str(refused.value) == "Line 3 is past the end: the file has 2 lines. Use an offset from 1 to 2."


def test_offset_zero_means_the_first_line():
    assert read("a\nb\n", 0) == read("a\nb\n", 1)


@pytest.mark.parametrize(("offset", "limit", "field"), [(-1, None, "offset"), (1, 0, "limit"), (None, -3, "limit")])
def test_impossible_offsets_and_limits_are_refused_by_name(offset, limit, field):
    with pytest.raises(ValidationError) as refused:
        read("a\n", offset, limit)

    assert [error.field for error in refused.value.fields] == [field]


def test_numbers_stay_right_beyond_the_usual_ones():
    assert read("x\n" * 5000, 1999, 4).text == "  1999\tx\n  2000\tx\n  2001\tx\n  2002\tx"


@settings(deadline=None)
@given(
    st.text(alphabet="ab\n\x0b\x0c\u2028\x1b\t", max_size=120),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.integers(1, 7),
)
def test_pages_put_together_are_the_file(text, newline, size):
    file = decode(text.replace("\n", newline).encode())
    lines: list[str] = []
    while True:
        got = text_page(file, len(lines) + 1, size, DEFAULT_LIMITS)
        lines += [re.sub(r"^ *\d+\t", "", line, count=1) for line in got.text.split("\n")] if got.line_count else []
        if got.first_line + got.line_count > got.total_lines:
            break

    assert newline.join(lines) + (newline if file.final_newline else "") == file.text


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("a\nb\nc\nd\n", 4, (1, ["b", "c", "d"])),
        ("a\nb\nc\nd", 0, (0, ["a", "b", "c"])),
        ("a\r\nb\r\nc\r\n", 6, (1, ["b", "c"])),
        ("", 0, (0, [])),
        ("a\n", 2, (1, ["a"])),
    ],
)
def test_lines_around_a_place(text, position, expected):
    assert lines_around(text, position, 1, 3) == expected
