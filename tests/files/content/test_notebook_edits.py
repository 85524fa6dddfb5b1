"""One cell of a notebook changes; every other byte stays, in whatever layout the file has."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.core.errors import ToolError, ValidationError
from toolyard.files.content.notebook_edits import CellEdit, edit_notebook

JUPYTER = """{
 "cells": [
  {
   "cell_type": "code",
   "execution_count": 3,
   "id": "aa",
   "metadata": {"weight": 1.50},
   "outputs": [
    {"name": "stdout", "output_type": "stream", "text": ["1\\n"]}
   ],
   "source": [
    "print(1)\\n",
    "x = 1"
   ]
  },
  {
   "cell_type": "markdown",
   "id": "bb",
   "metadata": {},
   "source": "# Tür"
  }
 ],
 "metadata": {"big": 1e400, "number": 10.0},
 "nbformat": 4,
 "nbformat_minor": 5
}
"""


def edited(text: str, mode="replace", cell="aa", source="x = 2\ny = 3", kind=None) -> str:
    return edit_notebook(text.encode(), CellEdit(mode, cell, source, kind)).data.decode()


def test_replacing_changes_the_source_and_removes_what_the_old_one_put_out():
    wanted = JUPYTER.replace('"execution_count": 3', '"execution_count": null')
    wanted = wanted.replace(
        '[\n    {"name": "stdout", "output_type": "stream", "text": ["1\\n"]}\n   ]', "[]"
    ).replace('"print(1)\\n",\n    "x = 1"', '"x = 2\\n",\n    "y = 3"')
    assert edited(JUPYTER) == wanted


def test_a_source_that_is_one_string_stays_one_string():
    assert edited(JUPYTER, cell="bb", source="# Tor\n") == JUPYTER.replace('"# Tür"', '"# Tor\\n"')


def test_the_same_source_again_leaves_its_spelling():
    assert edited(JUPYTER, cell="bb", source="# Tür") == JUPYTER
    spelled = JUPYTER.replace('"# Tür"', '"\\u0023 Tür"')
    assert edited(spelled, cell="bb", source="# Tür") == spelled


def test_a_cell_without_an_id_is_named_by_its_index():
    assert edited(JUPYTER, cell="cell-1", source="x") == JUPYTER.replace('"# Tür"', '"x"')


def test_inserting_goes_after_the_named_cell_in_the_layout_of_the_file():
    outcome = edit_notebook(JUPYTER.encode(), CellEdit("insert", "aa", "a\nb", "markdown"))
    lines = (f'   "id": "{outcome.cell}",', '   "metadata": {},', '   "source": "a\\nb"')
    new = "\n".join(("  {", '   "cell_type": "markdown",', *lines, "  },", ""))
    at = JUPYTER.index('  {\n   "cell_type": "markdown"')
    assert outcome.data.decode() == JUPYTER[:at] + new + JUPYTER[at:]
    assert len(outcome.cell) == 8


def test_inserting_without_a_cell_goes_to_the_beginning():
    text = edited(JUPYTER, "insert", None, "first", "code")
    cells = json.loads(text)["cells"]
    assert cells[0]["source"] == "first"
    assert (cells[0]["outputs"], cells[0]["execution_count"]) == ([], None)
    assert text.endswith(JUPYTER[JUPYTER.index('{\n   "cell_type": "code"') :])


def test_inserting_into_an_empty_notebook():
    text = '{\n "cells": [],\n "metadata": {},\n "nbformat": 4,\n "nbformat_minor": 4\n}\n'
    assert json.loads(edited(text, "insert", None, "a\n", "markdown"))["cells"] == [
        {"cell_type": "markdown", "metadata": {}, "source": ["a\n"]}
    ]


def test_deleting_takes_the_cell_and_its_comma():
    at = JUPYTER.index(',\n  {\n   "cell_type": "markdown"')
    assert edited(JUPYTER, "delete", "bb", "") == JUPYTER[:at] + JUPYTER[JUPYTER.index("\n ],\n") :]
    first = edited(JUPYTER, "delete", "aa", "")
    assert [cell["id"] for cell in json.loads(first)["cells"]] == ["bb"]
    assert json.loads(edited(first, "delete", "bb", ""))["cells"] == []


def test_a_cell_that_becomes_markdown_loses_what_only_code_has_and_gets_it_back():
    markdown = edited(JUPYTER, kind="markdown", source="# now")
    assert json.loads(markdown)["cells"][0].keys() == {"cell_type", "id", "metadata", "source"}
    code = json.loads(edited(markdown, kind="code", source="x"))["cells"][0]
    assert (code["outputs"], code["execution_count"]) == ([], None)


def test_one_line_and_windows_line_ends_stay_as_they_are():
    compact = json.dumps(json.loads(JUPYTER.replace("1e400", "1")), separators=(",", ":"))
    assert "\n" not in edited(compact)
    windows = JUPYTER.replace("\n", "\r\n")
    assert edited(windows, cell="bb", source="x") == windows.replace('"# Tür"', '"x"')
    assert "\n" not in edited(windows, "insert", "aa", "a\nb", "code").replace("\r\n", "")


def test_escaped_characters_stay_escaped():
    escaped = JUPYTER.replace("Tür", "T\\u00fcr")
    assert edited(escaped, cell="bb", source="ö") == escaped.replace("# T\\u00fcr", "\\u00f6")


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"worksheets": []}', '{"cells": [1]}', '{"cells": 1}'])
def test_what_is_no_notebook_is_refused(text):
    with pytest.raises(ToolError, match="Nothing was written"):
        edited(text)


def test_a_cell_that_is_not_there_is_named():
    with pytest.raises(ValidationError, match="there is no cell 'zz'"):
        edited(JUPYTER, cell="zz")
    with pytest.raises(ValidationError, match="there is no cell 'cell-2'"):
        edited(JUPYTER, cell="cell-2")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
CELLS = st.lists(
    st.fixed_dictionaries({"cell_type": st.sampled_from(["code", "markdown", "raw"]), "source": st.text()}).flatmap(
        lambda cell: st.dictionaries(st.text(min_size=1), JSON, max_size=3).map(lambda more: {**more, **cell})
    ),
    min_size=1,
    max_size=4,
)


@given(CELLS, JSON, st.text(), st.sampled_from([None, 1, 2, "\t"]), st.booleans(), st.data())
def test_whatever_a_notebook_holds_only_the_one_cell_changes(cells, metadata, source, indent, ascii_only, data):
    root = {"metadata": metadata, "cells": cells, "nbformat": 4, "nbformat_minor": 5}
    text = json.dumps(root, indent=indent, ensure_ascii=ascii_only)
    index = data.draw(st.integers(0, len(cells) - 1))
    after = json.loads(edited(text, cell=f"cell-{index}", source=source))
    assert "".join(after["cells"][index]["source"]) == source
    after["cells"][index] = cells[index]
    assert after == root
    gone = json.loads(edited(text, "delete", f"cell-{index}", ""))
    assert gone["cells"] == [*cells[:index], *cells[index + 1 :]]
    more = json.loads(edited(text, "insert", f"cell-{index}", source, "code"))["cells"]
    assert more[index + 1]["source"] == source or "".join(more[index + 1]["source"]) == source
    assert [*more[: index + 1], *more[index + 2 :]] == cells
