from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest
from PIL import Image as Pillow

from toolyard.core.calls import Image, Text
from toolyard.core.errors import ToolError, ValidationError
from toolyard.files.content import Category, FileKind, RenderedFile, render


def test_a_text_is_shown_with_its_numbers_and_where_it_stands():
    assert render(b"a\r\nb\r\nc\r\n", "a.txt", offset=2, limit=1) == RenderedFile(
        parts=(Text("     2\tb\n\n[Lines 2-2 of 3; use offset=3 to read on.]"),),
        kind=FileKind(Category.TEXT, "text/plain"),
        content="b\n",
        note="Lines 2-2 of 3; use offset=3 to read on.",
        encoding="utf-8",
        newline="\r\n",
        first_line=2,
        line_count=1,
        total_lines=3,
        truncated=True,
    )


def test_a_whole_text_has_no_note():
    assert render(b"a\n", "a.txt").parts == (Text("     1\ta"),)


def test_an_empty_file_is_shown_as_a_note():
    assert render(b"", "a.txt").parts == (Text("[The file exists but is empty.]"),)


def test_an_image_is_shown_with_its_measures():
    out = io.BytesIO()
    Pillow.new("RGB", (4, 3)).save(out, "PNG")
    data = out.getvalue()
    about = f"image/png image, 4x3 pixels, {len(data)} bytes"

    assert render(data, "a.png") == RenderedFile(
        parts=(Text(about), Image(data, "image/png")),
        kind=FileKind(Category.IMAGE, "image/png"),
        content=about,
        width=4,
        height=3,
    )


def test_a_notebook_is_shown_by_cells():
    got = render(json.dumps({"cells": [{"cell_type": "raw", "id": "x", "source": "s"}]}).encode(), "a.ipynb")

    assert got.parts == (Text('<cell number="1" id="x" type="raw">\ns\n</cell>\n\n[Cells 1-1 of 1.]'),)


def test_a_binary_file_is_refused_with_advice():
    with pytest.raises(ToolError) as refused:
        render(b"\0" * 10, "a.bin")

    assert str(refused.value) == (
        "This is a binary file (10 bytes) and has no text to show."
        " Look at it with a program that knows its format, such as file, xxd or unzip -l."
    )


def test_pages_are_for_pdf_files_only():
    with pytest.raises(ValidationError, match="pages: is only for PDF files"):
        render(b"a", "a.txt", pages="1")


def test_what_is_shown_can_always_be_sent_as_utf8():
    got = render("çà et là, déjà vu ".encode() + b"\xff\n", "a.txt")

    assert got.content.encode() == "çà et là, déjà vu \ufffd\n".encode()


def test_heavy_libraries_are_not_imported_until_they_are_needed():
    code = (
        "import sys, toolyard.files.content;"
        "print(sorted({'pypdf', 'charset_normalizer', 'difflib', 'html'} & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
