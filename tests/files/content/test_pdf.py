from __future__ import annotations

import io
import logging
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pypdf import PdfWriter

from toolyard.core.errors import ToolError, ValidationError
from toolyard.core.limits import DEFAULT_LIMITS
from toolyard.files.content.pdf import PdfPages, parse_pages, read


def make_pdf(*texts: str) -> bytes:
    """A PDF with one line of text on each page, written by hand: no library of ours writes text."""
    count = len(texts)
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, text in enumerate(texts):
        stream = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET" if text else ""
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents {5 + 2 * n} 0 R"
            " /Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    out = io.BytesIO(b"%PDF-1.4\n")
    out.seek(0, io.SEEK_END)
    places = []
    for number, body in enumerate(objects, 1):
        places.append(out.tell())
        out.write(f"{number} 0 obj\n{body}\nendobj\n".encode())
    start = out.tell()
    rows = "".join(f"{place:010d} 00000 n \n" for place in places)
    out.write(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{rows}".encode())
    out.write(f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode())
    return out.getvalue()


def show(data: bytes, pages: str | None = None, **limits) -> PdfPages:
    return read(data, pages, replace(DEFAULT_LIMITS, **limits))


def encrypted(password: str) -> bytes:
    writer = PdfWriter(clone_from=io.BytesIO(make_pdf("secret")))
    writer.encrypt(password, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def test_pages_come_with_headings():
    assert show(make_pdf("Hello", "", "World")) == PdfPages(
        "--- Page 1 of 3 ---\nHello\n\n"
        "--- Page 2 of 3 ---\n[no text on this page; it may be a scanned image]\n\n"
        "--- Page 3 of 3 ---\nWorld",
        "The PDF has 3 pages.",
        (1, 2, 3),
        3,
        False,
    )


def test_the_pages_asked_for_are_read():
    assert show(make_pdf("a", "b", "c", "d"), "2,4") == PdfPages(
        "--- Page 2 of 4 ---\nb\n\n--- Page 4 of 4 ---\nd", "The PDF has 4 pages.", (2, 4), 4, True
    )


def test_without_pages_the_first_twenty_are_read():
    got = show(make_pdf(*["x"] * 25))

    assert (got.pages, got.note, got.truncated) == (
        tuple(range(1, 21)),
        'The PDF has 25 pages. Read on with pages="21-25".',
        True,
    )


def test_pages_beyond_the_output_limit_wait_for_the_next_call():
    got = show(make_pdf("x" * 50, "y" * 50, "z" * 50), output_chars=160)

    assert (got.pages, got.note) == ((1, 2), 'The PDF has 3 pages. Read on with pages="3-3".')


def test_one_enormous_page_is_cut():
    got = show(make_pdf("x" * 500), output_chars=100)

    assert (len(got.text), got.truncated, got.note) == (
        100,
        True,
        "The PDF has 1 page. The text of the page was cut.",
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [("3", (3,)), ("1-3", (1, 2, 3)), (" 2 , 1-2 ", (1, 2)), ("9-", (9, 10)), ("8-8,1", (1, 8))],
)
def test_page_lists_are_understood(spec, expected):
    assert parse_pages(spec, 10) == expected


@pytest.mark.parametrize(
    "spec", ["", " ", "a", "0", "3-1", "-1", "1,,2", "1.5", "11", "1-11", "1-" + "9" * 50, "٣", "1,"]
)
def test_nonsense_page_lists_are_refused(spec):
    with pytest.raises(ValidationError) as refused:
        parse_pages(spec, 10)

    assert [error.field for error in refused.value.fields] == ["pages"]


def test_too_many_pages_are_refused():
    with pytest.raises(ValidationError, match="names 30 pages, and 20 is the most"):
        parse_pages("1-30", 100)


def test_a_password_is_asked_for_in_words():
    with pytest.raises(ToolError, match="protected by a password"):
        show(encrypted("sesame"))


def test_an_empty_password_is_no_obstacle():
    assert "secret" in show(encrypted("")).text


def test_without_the_package_the_user_is_told_which_one(monkeypatch):
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(ToolError, match="not installed") as caught:
        read(make_pdf("one"), None, DEFAULT_LIMITS)
    assert "toolyard[pdf]" in caught.value.hint


@pytest.mark.parametrize("data", [b"%PDF-1.7\n", b"%PDF-1.7\ngarbage\n%%EOF", make_pdf("x")[:60], b""])
def test_a_broken_file_is_refused_in_silence(data, caplog, capfd):
    with caplog.at_level(logging.DEBUG), pytest.raises(ToolError):
        show(data)

    assert (caplog.text, capfd.readouterr()) == ("", ("", ""))


def test_pages_that_contain_each_other_are_refused():
    looped = make_pdf("x").replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]")
    with pytest.raises(ToolError):
        show(looped)


WHOLE = make_pdf("one", "two")


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=6), st.integers(0, len(WHOLE))
)
def test_damage_of_any_kind_gives_pages_or_a_tool_error(damage, length):
    data = bytearray(WHOLE)
    for at, value in damage:
        data[at] = value
    try:
        got = show(bytes(data[:length] if length % 2 else data))
    except ToolError:
        return
    assert got.total_pages >= 1
