from __future__ import annotations

import base64
import io
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow

from toolyard.core.calls import Image
from toolyard.core.errors import ToolError, ValidationError
from toolyard.core.limits import DEFAULT_LIMITS
from toolyard.files.content.notebooks import IMAGES, OUTPUT_CHARS, NotebookPage, read


def png() -> bytes:
    out = io.BytesIO()
    Pillow.new("RGB", (4, 3)).save(out, "PNG")
    return out.getvalue()


PNG = png()
PLOT = {
    "output_type": "display_data",
    "data": {"image/png": base64.b64encode(PNG).decode(), "text/plain": "<Figure>"},
}


def notebook(*cells: object, **more: object) -> bytes:
    return json.dumps({"nbformat": 4, "cells": list(cells), **more}).encode()


def show(data: bytes, offset=None, limit=None, **limits) -> NotebookPage:
    return read(data, offset, limit, replace(DEFAULT_LIMITS, **limits))


def test_cells_come_with_their_ids_and_outputs():
    data = notebook(
        {"cell_type": "markdown", "id": "intro", "source": ["# Title\n", "text"]},
        {
            "cell_type": "code",
            "source": "print(1)",
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["1\n"]},
                {"output_type": "execute_result", "data": {"text/plain": ["42"], "text/html": "<b>42</b>"}},
                {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[31mboom\x1b[0m"]},
                PLOT,
            ],
        },
        metadata={"language_info": {"name": "julia"}},
    )

    assert show(data) == NotebookPage(
        '<cell number="1" id="intro" type="markdown">\n# Title\ntext\n</cell>\n\n'
        '<cell number="2" id="cell-1" type="code" language="julia">\nprint(1)\n</cell>\n'
        '<output cell="2">\n1\n</output>\n'
        '<output cell="2">\n42\n</output>\n'
        '<output cell="2">\nboom\n</output>\n'
        '<output cell="2">\n[image/png, 4x3, shown below]\n</output>',
        (Image(PNG, "image/png"),),
        "Cells 1-2 of 2.",
        1,
        2,
        2,
        False,
    )


def test_format_three_is_understood():
    old = {"cell_type": "code", "input": ["x"], "outputs": [{"output_type": "pyout", "text": ["7"]}]}
    data = json.dumps({"nbformat": 3, "worksheets": [{"cells": [old]}]}).encode()

    assert show(data).text == (
        '<cell number="1" id="cell-0" type="code" language="python">\nx\n</cell>\n<output cell="1">\n7\n</output>'
    )


def test_only_the_first_images_are_shown():
    got = show(notebook({"cell_type": "code", "source": "", "outputs": [PLOT] * (IMAGES + 2)}))

    assert (len(got.pictures), got.text.count("not shown: only 5 images")) == (IMAGES, 2)


@pytest.mark.parametrize("encoded", ["%%%", "aGVsbG8=", "é"])
def test_a_damaged_image_is_told_and_not_shown(encoded):
    got = show(
        notebook({"cell_type": "code", "outputs": [{"output_type": "display_data", "data": {"image/png": encoded}}]})
    )

    assert (got.pictures, "[image/png not shown: " in got.text) == ((), True)


def test_a_long_output_is_cut():
    got = show(notebook({"cell_type": "code", "outputs": [{"output_type": "stream", "text": "x" * 10_000}]}))

    assert f"... [output cut: {OUTPUT_CHARS} of 10000 characters]" in got.text


def test_offset_and_limit_count_cells():
    got = show(notebook(*[{"cell_type": "raw", "id": f"c{n}", "source": str(n)} for n in range(1, 6)]), 2, 2)

    assert got == NotebookPage(
        '<cell number="2" id="c2" type="raw">\n2\n</cell>\n\n<cell number="3" id="c3" type="raw">\n3\n</cell>',
        (),
        "Cells 2-3 of 5; use offset=4 to read on (it counts cells).",
        2,
        2,
        5,
        True,
    )


def test_a_big_notebook_is_paged_by_the_output_limit():
    got = show(notebook(*[{"cell_type": "raw", "source": "x" * 100}] * 5), output_chars=350)

    assert (got.cell_count, got.truncated, len(got.text) <= 350) == (2, True, True)


def test_one_enormous_cell_is_cut():
    got = show(notebook({"cell_type": "raw", "source": "x" * 1000}), output_chars=100)

    assert (got.cell_count, got.truncated, got.text.endswith("... [cell cut]"), len(got.text) < 130) == (
        1,
        True,
        True,
        True,
    )


def test_a_cell_past_the_end_is_refused_with_the_number_of_cells():
    with pytest.raises(ToolError, match="Cell 3 is past the end: the notebook has 1 cells"):
        show(notebook({"cell_type": "raw"}), 3)


def test_an_empty_notebook_says_so():
    assert show(notebook()).note == "The notebook has no cells."


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{", "not valid JSON"),
        (b"[" * 200_000, "not valid JSON"),
        (b"[]", "not a notebook"),
        (b'{"a": 1}', "not a notebook"),
        (b"", "not valid JSON"),
    ],
)
def test_what_is_no_notebook_is_refused(data, said):
    with pytest.raises(ToolError, match=said):
        show(data)


@pytest.mark.parametrize(("offset", "limit"), [(-1, None), (None, 0)])
def test_impossible_offsets_and_limits_are_refused(offset, limit):
    with pytest.raises(ValidationError):
        show(notebook(), offset, limit)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["code", "stream", "error"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["cell_type", "id", "source", "outputs", "output_type", "data", "text", "image/png", "cells", "png"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@settings(deadline=None)
@given(JSON, JSON)
def test_no_json_makes_it_fail(cells, metadata):
    got = show(json.dumps({"cells": cells, "metadata": metadata}).encode())

    assert got.cell_count == got.total_cells
