"""Bytes become text that can be sent, whatever they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.assistant.files.file_text import decode_text
from toolyard.core.limits import KIB

LONG = 300 * KIB


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
@pytest.mark.parametrize("size", [1, LONG])
def test_lines_are_read_in_any_usual_encoding_however_long_the_file_is(encoding, size):
    line = "größe = 'schön' # über\r\n"
    text = line * (1 + size // len(line))

    assert decode_text(text.encode(encoding)) == text.replace("\r\n", "\n")


def test_line_ends_and_characters_across_two_parts_are_read_as_one():
    for shift in range(4):
        text = "x" * shift + "漢\r\n" * LONG

        assert decode_text(text.encode()) == text.replace("\r\n", "\n")


@given(st.binary(max_size=300), st.sampled_from([1, 5_000]))
def test_any_bytes_become_text_that_can_be_sent(data, times):
    text = decode_text(data * times)

    text.encode()
    assert "\r" not in text
    assert "\0" not in text
