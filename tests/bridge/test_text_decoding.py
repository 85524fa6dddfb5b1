"""Bytes of clients' files as text and back, in encodings that clients name."""

from __future__ import annotations

import base64
import codecs
import encodings

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolyard.bridge.text_decoding import _text_codecs, decode_content, encode_content, from_base64
from toolyard.core.errors import ValidationError

KNOWN = sorted(_text_codecs())
known = st.sampled_from(KNOWN)
texts = st.text(st.characters(exclude_categories=["Cs"])).filter(lambda text: not text.startswith("\ufeff"))
UNKNOWN = [
    *("", "no-such-thing", "utf-88", "utf-8\0", " utf-8", "utf 8", "os.path", "..", "é", "\udcff", "x" * 1_000_000),
    *("base64", "base64_codec", "hex", "hex_codec", "rot13", "rot_13", "zlib", "zip", "bz2", "uu", "quopri"),
    *("aliases", "charmap", "idna", "mbcs", "punycode", "raw_unicode_escape", "undefined", "unicode_escape", "utf-7"),
]


@pytest.mark.parametrize(
    ("data", "wanted", "recorded", "expected"),
    [
        (b"caf\xc3\xa9", None, "utf-8", ("café", "utf-8")),
        (b"caf\xe9", "latin-1", "utf-8", ("café", "latin-1")),
        (b"caf\xc3\xa9", "ascii", "UTF8", ("café", "UTF8")),
        (b"caf\xe9", "utf-8", "Windows-1252", ("café", "Windows-1252")),
        (b"caf\xe9", "ascii", "utf-8", ("café", "cp1252")),
        (b"caf\xe9", None, "base64", ("café", "cp1252")),
        (b"caf\xc3\xa9", None, "nobody knows", ("café", "utf-8")),
        (b"\xef\xbb\xbftext", None, "utf-8", ("text", "utf-8")),
        (b"\xef\xbb\xbftext", "u8", "ascii", ("text", "u8")),
        (b"\xff\xfet\0", None, "utf-8", ("t", "utf-16-le")),
        (b"\xff\xfet\0", "utf-16", "utf-8", ("t", "utf-16")),
        ("ok é ö ü ".encode() * 9 + b"\xff", None, "utf-8", ("ok é ö ü " * 9 + "\ufffd", "utf-8")),
        ("Привет, как дела? ".encode("koi8-r") * 20, None, "utf-8", ("Привет, как дела? " * 20, "koi8_r")),
        (b"", None, "", ("", "utf-8")),
    ],
)
def test_the_wanted_encoding_is_tried_then_the_recorded_one_then_it_is_guessed(
    data: bytes, wanted: str | None, recorded: str, expected: tuple[str, str]
) -> None:
    assert decode_content(data, wanted, recorded) == expected


@pytest.mark.parametrize("name", UNKNOWN, ids=lambda name: ascii(name[:20]))
def test_what_is_no_encoding_of_files_is_refused(name: str) -> None:
    before = set(encodings._cache)
    for work in (lambda: decode_content(b"x", name, "utf-8"), lambda: encode_content("x", name)):
        with pytest.raises(ValidationError, match="is not a known text encoding") as raised:
            work()
        assert [each.field for each in raised.value.fields] == ["encoding"]
        assert "utf-8" in raised.value.hint
        assert len(str(raised.value)) < 400
        assert str(raised.value).isprintable()
    assert set(encodings._cache) == before  # Python would remember each of them


def test_every_encoding_that_is_known_is_one_of_text() -> None:
    assert {"utf_8", "latin_1", "cp1252", "shift_jis", "utf_16", "gb18030"} <= set(KNOWN)
    assert [name for name in KNOWN if not codecs.lookup(name)._is_text_encoding] == []


@given(data=st.binary(max_size=200), wanted=st.none() | known, recorded=known | st.text(max_size=5))
def test_any_bytes_are_a_text_that_can_be_sent(data: bytes, wanted: str | None, recorded: str) -> None:
    text, used = decode_content(data, wanted, recorded)
    text.encode("utf-8")
    codecs.lookup(used)


@given(text=texts, encoding=known)
@example(text="\x1b$B!", encoding="iso2022_jp")
@example(text="~{", encoding="hz")
@example(text="\\~", encoding="shift_jis")
def test_a_pushed_text_is_read_as_it_was(text: str, encoding: str) -> None:
    data, used = encode_content(text, encoding)
    assert used in {encoding, "utf-8"}
    assert decode_content(data, None, used) == decode_content(data, used, "ascii") == (text, used)


def test_a_text_is_kept_in_the_encoding_that_it_had_where_that_can_say_it() -> None:
    assert encode_content("café", "latin-1") == (b"caf\xe9", "latin-1")
    assert encode_content("日本", "Shift_JIS") == (b"\x93\xfa\x96{", "Shift_JIS")
    assert encode_content("日本", "latin-1") == ("日本".encode(), "utf-8")
    assert encode_content("\x1b$B!", "iso2022_jp") == (b"\x1b$B!", "utf-8")
    assert encode_content("a", "utf-16-be") == (b"\0a", "utf-16-be")


def test_halves_of_characters_are_joined_or_replaced() -> None:
    assert encode_content("\ud83e\udd80 and \ud83e", "utf-8") == ("🦀 and \ufffd".encode(), "utf-8")


@given(st.binary())
def test_base64_comes_back_as_it_was(data: bytes) -> None:
    assert from_base64(base64.b64encode(data).decode()) == data


@pytest.mark.parametrize(
    "text",
    [
        *("Q", "QQ", "QQ=", "QQ===", "QQ==QQ==", "QR==", "=", "====", "Q=Q=", "QQ==x"),
        *("QU JD", "QUJD\n", "\nQUJD", "QU\r\nJD", "QU-_", "QUJé", "QUJ\udcff", "QUJ\0", "not base64!"),
    ],
    ids=ascii,
)
def test_anything_but_base64_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="content: is not base64") as raised:
        from_base64(text)
    assert [each.field for each in raised.value.fields] == ["content"]
