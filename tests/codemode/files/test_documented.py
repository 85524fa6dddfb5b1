"""The page about tool files tells the truth. (Its Python runs with that of all pages.)"""

import re
from pathlib import Path

import pytest

from toolyard.codemode.files.names import FOLDERS, LONGEST_NAME, PARAMETERS, TOOLS, spell_names
from toolyard.codemode.files.schema_to_type import _MAX_DEPTH, _MAX_VALUES
from toolyard.codemode.files.tool_file import LONGEST_DESCRIPTION
from toolyard.core.upstream import ToolSchema

PAGE = (Path(__file__).parents[3] / "docs" / "tool-files.md").read_text()
KINDS = {"tool": TOOLS, "parameter": PARAMETERS, "server": FOLDERS}
ROWS = re.findall(r"^\| (tool|parameter|server) ([^|]+) \| ([^|]+) \|", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("kind", "names", "spelled"), ROWS)
def test_names_are_spelled_as_the_table_says(kind, names, spelled):
    listed = re.findall(r"`([^`]+)`", names)
    assert spell_names(listed, KINDS[kind]) == re.findall(r"`([^`]+)`", spelled)


def test_the_table_of_names_was_read():
    assert len(ROWS) == 9


def test_the_numbers_are_those_of_the_code():
    for number in (LONGEST_NAME, f"{LONGEST_DESCRIPTION:,}", _MAX_VALUES, _MAX_DEPTH):
        assert str(number) in PAGE


def test_the_example_is_what_the_compiler_writes(files):
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "tail": {"type": "number", "description": "If provided, returns only the last N lines of the file"},
            "head": {"type": "number", "description": "If provided, returns only the first N lines of the file"},
        },
        "required": ["path"],
    }
    shape = {"type": "object", "properties": {"content": {"type": "string"}}, "required": ["content"]}
    said = "Read the complete contents of a file from the file system as text. ..."
    tool = ToolSchema("read_text_file", said, schema, shape)
    text, _ = files.compile_tool(
        tool.input_schema, name=tool.name, server="files", description=said, output_schema=shape
    )
    assert text in PAGE
