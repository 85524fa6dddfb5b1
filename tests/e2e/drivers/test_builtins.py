"""The names that CLIs keep for tools of their own, read from the very programs: none of ours is lost behind one."""

from __future__ import annotations

import pathlib
import re

import pytest

from toolyard.app.toolsets import Toolset, tools_of
from toolyard.drivers.registry import driver_of

OURS = sorted({name for toolset in Toolset for name in tools_of(toolset)})


def of_gemini(packages: pathlib.Path) -> set[str]:
    """The list that it compares names with, in whichever file of the bundle it stands, and its older names."""
    for path in sorted((packages / "@google/gemini-cli/bundle").glob("*.js")):
        text = path.read_text(errors="replace")
        if "ALL_BUILTIN_TOOL_NAMES = [" in text:
            values = dict(re.findall(r'var ([A-Z_]+) = "(\w+)"', text))
            names = {values[word] for word in re.findall(r"\w+", _between(text, "ALL_BUILTIN_TOOL_NAMES = [", "]"))}
            older = _between(text, "TOOL_LEGACY_ALIASES = {", "}")
            return names | set(re.findall(r"^\s*(\w+):", older, re.MULTILINE))
    raise AssertionError("the list is not where it was: look for it in this version")


def of_qwen(packages: pathlib.Path) -> set[str]:
    text = (packages / "@qwen-code/qwen-code/cli.js").read_text(errors="replace")
    return set(re.findall(r':\s*"(\w+)"', _between(text, " ToolNames = {", "}")))


def _between(text: str, start: str, end: str) -> str:
    _, found, rest = text.partition(start)
    assert found, f"{start} is not where it was: look for it in this version"
    return rest.partition(end)[0]


@pytest.mark.parametrize(("cli", "read"), [("gemini", of_gemini), ("qwen", of_qwen)])
def test_the_table_has_every_name_that_the_program_keeps_and_no_tool_of_ours_is_served_under_one(npm, cli, read):
    driver, real = driver_of(cli), read(npm.folder / "node_modules")
    assert {"read_file", "write_file", "run_shell_command"} <= real
    assert real - driver.builtins == set()
    assert {driver.served_name(tool) for tool in OURS} & real == set()
    assert set(OURS) & real, "there is nothing to rename: does this test still look at the right names?"
