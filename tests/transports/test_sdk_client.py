"""The official SDK's own client, which checks every answer against the protocol's and the tools' schemas."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import AsyncIterator

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

from toolyard.core.events import CallOutcome

pytestmark = pytest.mark.slow  # a start of the server and the SDK for each test, in every era

MODES = ["legacy", "auto", "2026-07-28"]
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture(params=["stdio", "http"])
def connect(request, place):
    """Open the SDK's client on a server of our own."""

    @contextlib.asynccontextmanager
    async def opened(mode: str, *options: str, **client_options) -> AsyncIterator[Client]:
        if request.param == "stdio":
            program, *arguments = place.command(*options)
            parameters = StdioServerParameters(command=program, args=arguments, env=place.env)
            async with Client(parameters, mode=mode, **client_options) as client:
                yield client
            return
        with place.http(*options) as server:
            headers = {"Authorization": f"Bearer {server.token}"}
            url = f"http://{server.host}:{server.port}/mcp"
            async with httpx2.AsyncClient(headers=headers) as http:
                transport = streamable_http_client(url, http_client=http)
                async with Client(transport, mode=mode, **client_options) as client:
                    yield client

    return opened


@pytest.mark.parametrize("mode", MODES)
async def test_every_tool_gives_what_its_output_schema_promises(place, connect, mode):
    place.write("dot.png", PNG)
    place.write("folder/found.py", "needle = 1\n")
    place.write("n.ipynb", json.dumps({"cells": [{"cell_type": "code", "source": "x"}]}))
    calls = [
        ("Write", {"file_path": "a.txt", "content": "one\ntwo\n"}),
        ("Read", {"file_path": "a.txt"}),
        ("Read", {"file_path": "dot.png"}),
        ("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "1"}),
        ("MultiEdit", {"file_path": "a.txt", "edits": [{"old_string": "two", "new_string": "2"}]}),
        ("Read", {"file_path": "n.ipynb"}),
        ("NotebookEdit", {"notebook_path": "n.ipynb", "cell_id": "cell-0", "new_source": "y"}),
        ("Bash", {"command": "cat a.txt; exit 3"}),
        ("Bash", {"command": "sleep 60", "run_in_background": True}),
        ("BashOutput", {"bash_id": "bash_1"}),
        ("KillShell", {"shell_id": "bash_1"}),
        ("Grep", {"pattern": "needle"}),
        ("Grep", {"pattern": "needle", "output_mode": "content", "-n": True}),
        ("Grep", {"pattern": "needle", "output_mode": "count"}),
        ("Grep", {"pattern": "nowhere"}),
        ("Glob", {"pattern": "**/*.py"}),
        ("LS", {}),
    ]
    async with connect(mode) as client:
        tools = (await client.list_tools()).tools
        results = [await client.call_tool(name, arguments) for name, arguments in calls]
    assert {name for name, _ in calls} == {tool.name for tool in tools}
    assert all(result.structured_content and result.content for result in results)
    assert [call for call, result in zip(calls, results, strict=True) if result.is_error] == [
        ("Bash", {"command": "cat a.txt; exit 3"})
    ]
    assert [block.type for block in results[2].content].count("image") == 1
    assert place.read("a.txt") == "1\n2\n"


@pytest.mark.parametrize("mode", MODES)
async def test_failures_reach_the_caller_as_results_with_text_and_code(connect, mode):
    async with connect(mode) as client:
        result = await client.call_tool("Read", {"file_path": "/etc/passwd"})
    error = result.structured_content["error"]
    assert (result.is_error, error["code"], error["kind"]) == (True, -32001, "security")
    assert "outside the workspace" in result.content[0].text


@pytest.mark.parametrize("mode", MODES)
async def test_json_rpc_errors_reach_the_caller_with_code_message_and_data(connect, mode):
    async with connect(mode, "--errors", "jsonrpc") as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("Read", {"file_path": "/etc/passwd"})
    assert (caught.value.error.code, caught.value.error.data["kind"]) == (-32001, "security")
    assert "outside the workspace" in caught.value.error.message


@pytest.mark.parametrize("mode", MODES)
async def test_resources_are_listed_and_read(place, connect, mode):
    path = place.write("a.txt", "one\n")
    async with connect(mode) as client:
        (listed,) = (await client.list_resources()).resources
        template, skills = (await client.list_resource_templates()).resource_templates
        (contents,) = (await client.read_resource(listed.uri)).contents
    assert (listed.uri, contents.text) == (f"file://{path}", "one\n")
    assert template.uri_template == f"file://{place.workspace}/{{+path}}"
    assert skills.uri_template == "skill://{owner}/{name}/{+path}"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("allow", [True, False])
async def test_questions_are_answered_by_the_callback_in_either_era(place, connect, mode, allow):
    asked: list[str] = []

    async def answer(context, params):
        asked.append(params.message)
        return ElicitResult(action="accept", content={"allow": allow})

    async with connect(mode, "--permission-mode", "default", elicitation_callback=answer) as client:
        result = await client.call_tool("Write", {"file_path": "a.txt", "content": "written"})
    assert (len(asked), result.is_error) == (1, not allow)
    assert place.events()[-1].outcome is (CallOutcome.OK if allow else CallOutcome.DENIED)
