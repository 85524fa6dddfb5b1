"""Read, through dispatch: what a model is shown of each kind of file."""

import base64
import io
import json

import pytest
from PIL import Image as Pillow

from toolyard.core.calls import Image, Result, Text
from toolyard.core.errors import SecurityError, ToolError, ValidationError


def png(width=4, height=3) -> bytes:
    out = io.BytesIO()
    Pillow.new("RGB", (width, height)).save(out, "PNG")
    return out.getvalue()


def pdf(*texts: str) -> bytes:
    """One line of text on each page; readers rebuild the table of objects that is left out."""
    count = len(texts)
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{' '.join(f'{4 + 2 * n} 0 R' for n in range(count))}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, text in enumerate(texts):
        stream = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents {5 + 2 * n} 0 R"
            " /Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{body}\nendobj\n".encode()
    rows = "".join(f"{place:010d} 00000 n \n" for place in places)
    size = len(objects) + 1
    tail = f"xref\n0 {size}\n0000000000 65535 f \n{rows}trailer << /Size {size} /Root 1 0 R >>\n"
    return data + f"{tail}startxref\n{len(data)}\n%%EOF\n".encode()


def facts(**changed):
    usual = {"path": "a.txt", "kind": "text", "truncated": False, "encoding": "utf-8"}
    return {**usual, **changed}


async def test_text_is_shown_with_line_numbers(bench):
    path = bench.write("a.txt", "one\ntwo\r\nthree")
    shown = "     1\tone\n     2\ttwo\n     3\tthree"
    expected = Result((Text(shown),), facts(content="one\ntwo\nthree", first_line=1, line_count=3, total_lines=3))
    assert await bench.call("Read", file_path=path) == expected
    assert await bench.call("Read", file_path="./sub/../a.txt") == expected


async def test_offset_and_limit_choose_lines_and_say_how_to_go_on(bench):
    bench.write("a.txt", "one\ntwo\nthree\n")
    note = "Lines 2-2 of 3; use offset=3 to read on."
    assert await bench.call("Read", file_path="a.txt", offset=2, limit=1) == Result(
        (Text(f"     2\ttwo\n\n[{note}]"),),
        facts(content="two\n", first_line=2, line_count=1, total_lines=3, truncated=True, note=note),
    )


async def test_optional_arguments_may_be_null(bench):
    bench.write("a.txt", "one\n")
    nulls = {"offset": None, "limit": None, "pages": None}
    assert await bench.call("Read", file_path="a.txt", **nulls) == await bench.call("Read", file_path="a.txt")


async def test_a_long_file_is_read_page_by_page(open_bench):
    bench = open_bench(limits={"read_lines": 3})
    bench.write("a.txt", "".join(f"line {n}\n" for n in range(1, 8)))
    seen, offset = [], 1
    while True:
        page = (await bench.call("Read", file_path="a.txt", offset=offset)).structured
        seen += page["content"].splitlines()
        offset += page["line_count"]
        if offset > page["total_lines"]:
            break
    assert seen == [f"line {n}" for n in range(1, 8)]


async def test_a_file_too_large_to_be_read_whole_is_read_in_parts(open_bench):
    bench = open_bench(limits={"file_bytes": 1_000})
    bench.write("a.txt", "".join(f"line {n}\n" for n in range(1, 1_001)))
    page = (await bench.call("Read", file_path="a.txt", offset=998)).structured
    content = "line 998\nline 999\nline 1000\n"
    assert (page["content"], page["first_line"], page["total_lines"]) == (content, 998, 1_000)
    error = await bench.fails(ValidationError, "Read", file_path="a.txt")
    assert "offset and limit" in error.hint


async def test_an_empty_file_says_so(bench):
    bench.write("a.txt")
    result = await bench.call("Read", file_path="a.txt")
    assert (result.text, result.structured["content"]) == ("[The file exists but is empty.]", "")


async def test_an_image_comes_as_image_content(bench):
    bench.write("a.dat", png())
    result = await bench.call("Read", file_path="a.dat")
    about = f"image/png image, 4x3 pixels, {len(png())} bytes"
    assert result.parts == (Text(about), Image(png(), "image/png"))
    assert (result.structured["kind"], result.structured["content"]) == ("image", about)


async def test_a_notebook_comes_as_cells_with_their_pictures(bench):
    plot = {"output_type": "display_data", "data": {"image/png": base64.b64encode(png()).decode()}}
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {"cell_type": "code", "source": "print(1)", "outputs": [{"output_type": "stream", "text": "1\n"}, plot]},
    ]
    bench.write("a.ipynb", json.dumps({"nbformat": 4, "cells": cells}))
    result = await bench.call("Read", file_path="a.ipynb")
    assert [word in result.text for word in ("# Title", "print(1)", 'type="markdown"')] == [True] * 3
    assert [part for part in result.parts if isinstance(part, Image)] == [Image(png(), "image/png")]
    assert (result.structured["kind"], result.structured["total_lines"]) == ("notebook", 2)
    second = await bench.call("Read", file_path="a.ipynb", offset=2, limit=1)
    assert "# Title" not in second.text


async def test_pdf_pages_are_chosen(bench):
    bench.write("a.pdf", pdf("first page", "second page", "third page"))
    result = await bench.call("Read", file_path="a.pdf", pages="2-3")
    assert [word in result.text for word in ("first page", "second page", "third page")] == [False, True, True]
    assert (result.structured["kind"], result.structured["first_line"], result.structured["total_lines"]) == (
        "pdf",
        2,
        3,
    )
    assert "first page" in (await bench.call("Read", file_path="a.pdf")).text


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({}, ValidationError),
        ({"file_path": 1}, ValidationError),
        ({"file_path": ""}, ValidationError),
        ({"file_path": "a\0b"}, ValidationError),
        ({"file_path": "x" * 10_000}, ValidationError),
        ({"path": "a.txt"}, ValidationError),
        ({"file_path": "a.txt", "limit": 0}, ValidationError),
        ({"file_path": "a.txt", "offset": -1}, ValidationError),
        ({"file_path": "a.txt", "offset": "1"}, ValidationError),
        ({"file_path": "a.txt", "pages": "1"}, ValidationError),
        ({"file_path": "a.txt", "offset": 9}, ToolError),
        ({"file_path": "gone"}, ToolError),
        ({"file_path": "."}, ToolError),
        ({"file_path": "binary"}, ToolError),
        ({"file_path": "../x"}, SecurityError),
        ({"file_path": "/etc/passwd"}, SecurityError),
    ],
)
async def test_what_cannot_be_read_says_what_to_do_next(bench, arguments, kind):
    bench.write("a.txt", "x\n")
    bench.write("binary", b"\0\1\2")
    error = await bench.fails(kind, "Read", **arguments)
    assert len(str(error)) > len("a hint")
    if kind is ValidationError:
        assert error.fields
