"""The example, as a client that can be asked uses it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from mcp import Client

from tests.bridge.agent import Agent
from tests.bridge.conftest import LEGACY, MODERN, ROOT
from toolyard.bridge import BridgeHost, SecurityPolicy

SERVER = Path(__file__).parents[2] / "examples" / "todo_server.py"


@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_what_is_left_to_do_is_found_below_a_folder(project, era):
    spec = importlib.util.spec_from_file_location("todo_server", SERVER)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    (project / "src/inner/c.py").write_text("x = 1\ny = 2  # FIXME negative\n")
    agent = Agent(project, ROOT)
    with BridgeHost(SecurityPolicy(ROOT)) as host:
        async with Client(example.build(host), mode=era, sampling_callback=agent.sampled) as client:
            agent.client = client
            found = await client.call_tool("find_todos", {"folder": "src"})
            none = await client.call_tool("find_todos", {"folder": "tests"})
    assert found.structured_content == {f"{ROOT}/src/inner/c.py": ["2: FIXME negative"]}
    assert none.structured_content == {}
    assert [each["operation"] for each in agent.asked] == [
        "list_directory",
        "read_file",
        "read_file",
        "list_directory",
    ]
