from __future__ import annotations

import codecs
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.files.content.text import TextFile, decode, encode, line_at, newline_of, with_newline

RUSSIAN = "Съешь же ещё этих мягких французских булок.\nЭто обычный русский текст.\n" * 5  # noqa: RUF001 - it is Russian
JAPANESE = "これは日本語の文章です。文字コードを正しく判定できるか確認します。\nよろしくお願いします。\n" * 5


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", TextFile("", "utf-8", False, "\n", False)),
        (b"a\nb", TextFile("a\nb", "utf-8", False, "\n", False)),
        (b"a\r\nb\r\n", TextFile("a\r\nb\r\n", "utf-8", False, "\r\n", True)),
        (b"a\rb\r", TextFile("a\rb\r", "utf-8", False, "\r", True)),
        (b"a\r\nb\n", TextFile("a\r\nb\n", "utf-8", False, "mixed", True)),
        (b"\xef\xbb\xbfh\xc3\xa9\n", TextFile("hé\n", "utf-8", True, "\n", True)),
        ("\ufeffhé".encode("utf-16-le"), TextFile("hé", "utf-16-le", True, "\n", False)),
        ("\ufeffhé".encode("utf-16-be"), TextFile("hé", "utf-16-be", True, "\n", False)),
        ("\ufeffhé".encode("utf-32-le"), TextFile("hé", "utf-32-le", True, "\n", False)),
        ("\ufeffhé".encode("utf-32-be"), TextFile("hé", "utf-32-be", True, "\n", False)),
        (b"caf\xe9\n", TextFile("café\n", "cp1252", False, "\n", True)),
        (b"caf\xe9 \x81", TextFile("café \x81", "latin-1", False, "\n", False)),
        (RUSSIAN.encode("cp1251"), TextFile(RUSSIAN, "cp1251", False, "\n", True)),
        (JAPANESE.encode("cp932"), TextFile(JAPANESE, "cp932", False, "\n", True)),
    ],
)
def test_a_file_is_decoded_in_its_own_encoding_with_its_line_ends_untouched(data, expected):
    assert decode(data) == expected


def test_utf8_with_a_stray_byte_stays_utf8_and_shows_the_byte_as_a_replacement_character():
    file = decode("déjà vu, çà et là ".encode() + b"\xff" + "été".encode())

    assert (file.encoding, file.damaged, file.printable) == ("utf-8", True, "déjà vu, çà et là \ufffdété")


def test_an_encoding_that_would_not_give_the_same_bytes_back_is_passed_over():
    # Two spellings of one character in cp932: writing it would turn this one into the other.
    data = JAPANESE.encode("cp932") + b"\xfa\x5c"

    assert data.decode("cp932").encode("cp932") != data
    assert encode(decode(data)) == data


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_come_back_as_they_were(data):
    assert encode(decode(data)) == data


@settings(deadline=None)
@given(
    st.text(alphabet=st.sampled_from("aé\n\r жあ“€\x00\x85"), max_size=200),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1251", "cp932", "gb18030", "latin-1"]),
)
def test_texts_of_many_encodings_come_back_as_they_were(text, encoding):
    data = text.encode(encoding, "replace")

    assert encode(decode(data)) == data


@settings(deadline=None)
@given(st.text(alphabet="a\n\r", max_size=40), st.data())
def test_line_numbers_agree_with_a_plain_count_wherever_the_count_starts(text, data):
    def plainly(position: int) -> int:
        # A position on the second half of a pair is still on the line that the pair ends.
        head = text[:position]
        if head.endswith("\r") and text[position : position + 1] == "\n":
            head = head[:-1]
        return 1 + head.replace("\r\n", "\n").replace("\r", "\n").count("\n")

    start = data.draw(st.integers(0, len(text)))
    position = data.draw(st.integers(start, len(text)))

    assert line_at(text, position, newline_of(text), known=(start, plainly(start))) == plainly(position)


def test_bare_feeds_become_the_wanted_line_end_and_spelled_out_ones_stay():
    assert with_newline("a\nb\r\nc\r", "\r\n") == "a\r\nb\r\nc\r"


@given(st.binary(max_size=60), st.integers(0, 40))
def test_broken_bytes_are_counted_as_one_by_one(noise, healthy):
    data = "\u00e9".encode() * healthy + noise
    marks = [character for character in data.decode("utf-8", "surrogateescape") if not character.isascii()]
    broken = sum("\udc80" <= character <= "\udcff" for character in marks)
    if broken and not data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        assert decode(data).damaged is (len(marks) - broken >= broken * 4)


def test_a_file_of_broken_bytes_takes_little_more_memory_than_its_text():
    data = b"\xff" * 2_000_000
    decode(data[:100])  # what is imported for it is not counted
    tracemalloc.start()
    try:
        decode(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10 * len(data)
