"""The official SDK's own client, in both eras, which checks every answer against the schemas."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters

from tests.support.assistant_process import variables_for
from toolyard.testing.mock_model import FOREVER, Fail, Hang, Request, Say, Step, serve_model

pytestmark = pytest.mark.slow  # a start of the server and the SDK for each test, in every era

MODES = ["legacy", "2026-07-28"]


def scripted(request: Request) -> Step:
    asked = request.user_texts[-1]
    if "overloaded" in asked:
        return Fail(503, times=FOREVER)
    if "JSON" in asked:
        return Say(json.dumps({"summary": "Fine.", "findings": [], "areas": [{"area": "cost", "answer": "Low."}]}))
    return Hang() if "hang" in asked else Say("word " * 20_000 if "long" in asked else "Use a queue.")


@pytest.fixture
def parameters(project, tmp_path):
    (tmp_path / "home").mkdir()
    (project / "a.py").write_text("import os\n")
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    program = os.path.join(os.path.dirname(sys.executable), "toolyard")
    with serve_model(scripted) as model:
        variables = variables_for(model, str(tmp_path / "home"))
        yield (
            StdioServerParameters(command=program, args=["assistant", "--workspace", str(project)], env=variables),
            model,
        )


@pytest.mark.parametrize("mode", MODES)
async def test_every_tool_gives_what_its_output_schema_promises(parameters, mode):
    calls = [
        ("chat", {"prompt": "How?"}),
        ("thinkdeep", {"current_analysis": "It is slow.", "focus_areas": ["cost"]}),
        ("analyze", {"files": ["."], "question": "What is it?"}),
        ("codereview", {"files": ["a.py"], "context": "an import"}),
        ("debug", {"error_description": 'File "a.py", line 1'}),
        ("precommit", {"path": "."}),
    ]
    async with Client(parameters[0], mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [name for name, _ in calls]
        for name, arguments in calls:
            result = await client.call_tool(name, arguments)
            assert not result.is_error
            assert result.structured_content["continuation_id"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_long_answer_is_read_by_its_link(parameters, mode):
    async with Client(parameters[0], mode=mode) as client:
        result = await client.call_tool("chat", {"prompt": "a long one"})
        link = result.content[-1]
        read = await client.read_resource(link.uri)
    assert len(result.structured_content["content"]) < 40_000
    assert read.contents[0].text == ("word " * 20_000)


@pytest.mark.parametrize("mode", MODES)
async def test_failures_are_errors_of_the_protocol_with_their_data(parameters, mode):
    async with Client(parameters[0], mode=mode) as client:
        with pytest.raises(MCPError) as overloaded:
            await client.call_tool("chat", {"prompt": "overloaded"})
        with pytest.raises(MCPError) as outside:
            await client.call_tool("analyze", {"files": ["/etc/passwd"], "question": "?"})
    assert (overloaded.value.error.code, overloaded.value.error.data["provider_status"]) == (-32603, 503)
    assert outside.value.error.code == -32001


@pytest.mark.parametrize("mode", MODES)
async def test_a_call_that_is_left_is_taken_back_from_the_provider(parameters, mode):
    import anyio

    connection, model = parameters
    async with Client(connection, mode=mode) as client:
        async with anyio.create_task_group() as calls:
            calls.start_soon(client.call_tool, "chat", {"prompt": "hang"})
            await anyio.to_thread.run_sync(model.wait_for, lambda each: each.hanging_requests == 1)
            calls.cancel_scope.cancel()
        await anyio.to_thread.run_sync(model.wait_for, lambda each: each.hanging_requests == 0)
        result = await client.call_tool("chat", {"prompt": "How?"})
    assert result.structured_content["content"] == "Use a queue."
