"""NotebookEdit, through dispatch."""

import json

import pytest

from toolyard.core.errors import SecurityError, ToolError, ValidationError
from toolyard.core.permission_modes import PermissionMode

CELL = {"cell_type": "code", "execution_count": 1, "id": "aa", "metadata": {}, "outputs": [], "source": "x = 1"}
NOTEBOOK = json.dumps({"cells": [CELL], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


async def test_a_cell_that_was_read_is_replaced_and_the_result_says_what_changed(bench):
    bench.write("n.ipynb", NOTEBOOK)
    shown = await bench.call("Read", file_path="n.ipynb")
    assert 'id="aa"' in shown.text
    result = await bench.call("NotebookEdit", notebook_path="n.ipynb", cell_id="aa", new_source="x = 2")
    wanted = NOTEBOOK.replace("x = 1", "x = 2").replace('"execution_count": 1', '"execution_count": null')
    assert bench.read("n.ipynb").decode() == wanted
    assert result.text == "Replaced cell aa of n.ipynb."
    (hunk,) = result.structured.pop("structuredPatch")
    assert [line for line in hunk["lines"] if line[0] != " "] == [
        *('-   "execution_count": 1,', '+   "execution_count": null,'),
        *('-   "source": "x = 1"', '+   "source": "x = 2"'),
    ]
    assert result.structured == {"path": "n.ipynb", "cell_id": "aa", "cell_type": "code", "edit_mode": "replace"}


async def test_cells_are_inserted_and_deleted(bench):
    bench.write("n.ipynb", NOTEBOOK)
    await bench.call("Read", file_path="n.ipynb")
    added = await bench.call(
        "NotebookEdit", notebook_path="n.ipynb", new_source="# Title", edit_mode="insert", cell_type="markdown"
    )
    await bench.call("NotebookEdit", notebook_path="n.ipynb", cell_id="aa", new_source="", edit_mode="delete")
    (cell,) = json.loads(bench.read("n.ipynb"))["cells"]
    assert cell == {
        "cell_type": "markdown",
        "id": added.structured["cell_id"],
        "metadata": {},
        "source": "# Title",
    }


async def test_a_notebook_has_to_be_read_first_and_must_not_have_changed_since(bench):
    bench.write("n.ipynb", NOTEBOOK)
    call = {"notebook_path": "n.ipynb", "cell_id": "aa", "new_source": "x = 2"}
    error = await bench.fails(ToolError, "NotebookEdit", **call)
    assert "has not been read in this session" in error.message
    await bench.call("Read", file_path="n.ipynb")
    bench.write("n.ipynb", NOTEBOOK.replace("x = 1", "x = 7"))
    error = await bench.fails(ToolError, "NotebookEdit", **call)
    assert "has changed since it was last read" in error.message
    assert b"x = 7" in bench.read("n.ipynb")


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"notebook_path": "n.ipynb", "new_source": "x"}, "cell_id"),
        ({"notebook_path": "n.ipynb", "new_source": "x", "edit_mode": "insert"}, "cell_type"),
        ({"notebook_path": "n.ipynb", "new_source": "\ud800", "cell_id": "aa"}, "new_source"),
        ({"notebook_path": "n.ipynb", "new_source": "x", "cell_id": "zz"}, "cell_id"),
        ({"notebook_path": "n.py", "new_source": "x", "cell_id": "aa"}, "notebook_path"),
        ({"notebook_path": "n.ipynb", "new_source": "x", "cell_id": "aa", "edit_mode": "append"}, "edit_mode"),
    ],
)
async def test_arguments_that_cannot_be_right_are_named(bench, arguments, field):
    bench.write("n.ipynb", NOTEBOOK)
    await bench.call("Read", file_path="n.ipynb")
    error = await bench.fails(ValidationError, "NotebookEdit", **arguments)
    assert [fault.field for fault in error.fields] == [field]
    assert bench.read("n.ipynb").decode() == NOTEBOOK


async def test_a_notebook_that_is_not_there_is_not_made(bench):
    error = await bench.fails(ToolError, "NotebookEdit", notebook_path="n.ipynb", cell_id="aa", new_source="x")
    assert error.message.startswith("No such file or folder")
    assert bench.names() == []


async def test_the_policy_is_asked_as_for_every_other_write(open_bench):
    bench = open_bench(permissions={"deny": ["Write(sealed/**)"]})
    bench.write("sealed/n.ipynb", NOTEBOOK)
    call = {"cell_id": "aa", "new_source": "x"}
    await bench.fails(SecurityError, "NotebookEdit", notebook_path="sealed/n.ipynb", **call)
    await bench.fails(SecurityError, "NotebookEdit", notebook_path="/etc/n.ipynb", **call)
    plan = open_bench(PermissionMode.PLAN)
    await plan.fails(SecurityError, "NotebookEdit", notebook_path="sealed/n.ipynb", **call)
    assert bench.read("sealed/n.ipynb").decode() == NOTEBOOK
