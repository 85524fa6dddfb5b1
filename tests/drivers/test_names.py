"""Tools of ours are never lost behind a tool of the CLI's own that has the same name."""

from __future__ import annotations

import pytest

from toolyard.app.toolsets import Toolset, tools_of
from toolyard.core.errors import ValidationError
from toolyard.drivers.clis.gemini import Gemini
from toolyard.drivers.messages import ToolCall
from toolyard.drivers.registry import DRIVERS, driver_of

OURS = sorted({name for toolset in Toolset for name in tools_of(toolset)})


@pytest.mark.parametrize("cli", DRIVERS)
def test_no_tool_is_shown_to_the_model_under_the_name_of_a_builtin(cli):
    driver = driver_of(cli)

    assert driver.builtins
    assert not {driver.shown_name(tool) for tool in OURS} & driver.builtins


@pytest.mark.parametrize("cli", ["gemini", "qwen"])
def test_no_tool_is_served_under_the_name_of_a_builtin_where_that_would_lose_it(cli):
    driver = driver_of(cli)

    served = {tool: driver.served_name(tool) for tool in OURS}

    assert not set(served.values()) & driver.builtins
    assert served["read_file"] == "ws_read_file"
    assert served["Read"] == "Read"


@pytest.mark.parametrize("cli", DRIVERS)
def test_no_two_tools_are_served_under_one_name(cli):
    served = [driver_of(cli).served_name(tool) for tool in OURS]

    assert len(set(served)) == len(OURS)


@pytest.mark.parametrize("cli", DRIVERS)
def test_names_are_short_and_plain_enough_for_every_provider(cli):
    for tool in OURS:
        shown = driver_of(cli).shown_name(tool)
        assert len(shown) <= 63
        assert shown.replace("_", "").isalnum()


def test_a_call_is_told_under_our_name():
    reader = Gemini().reader("run", OURS)
    record = {
        "type": "tool_use",
        "tool_name": "mcp_toolyard_ws_write_file",
        "tool_id": "1",
        "parameters": {"path": "a"},
    }

    assert list(reader.read(record)) == [ToolCall("1", "write_file", {"path": "a"}, ours=True)]


def test_a_call_of_somebody_elses_tool_is_told_as_such():
    reader = Gemini().reader("run", OURS)
    record = {"type": "tool_use", "tool_name": "google_web_search", "tool_id": "1", "parameters": {"query": "a"}}

    assert list(reader.read(record)) == [ToolCall("1", "google_web_search", {"query": "a"}, ours=False)]


def test_a_cli_is_found_by_its_name_and_a_near_miss_is_helped():
    assert driver_of(" Gemini ").name == "gemini"

    with pytest.raises(ValidationError) as caught:
        driver_of("gemni")
    assert 'Did you mean "gemini"?' in caught.value.hint
