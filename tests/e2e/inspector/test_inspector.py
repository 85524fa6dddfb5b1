"""The MCP Inspector's command line on our server, over stdio and over HTTP."""

from __future__ import annotations

import json

import pytest

TOOLS = [
    *("Read", "Write", "Edit", "MultiEdit", "NotebookEdit"),
    *("Bash", "BashOutput", "KillShell", "Grep", "Glob", "LS"),
]


@pytest.fixture(params=["stdio", "http"])
def inspect(request, npm, yard, token):
    """Run one method: `inspect("tools/list")`."""

    def run(target: list[str], method: str, *arguments: str):
        command = [npm.program("mcp-inspector"), "--cli", *target, "--method", method, *arguments]
        return yard.run(command, yard.environment(npm))

    if request.param == "stdio":
        yield lambda *arguments: run(yard.command(), *arguments)
    else:
        with yard.http() as address:
            header = ["--header", f"Authorization: Bearer {token}"]
            yield lambda *arguments: run([address, *header], *arguments)


def test_tools_are_listed_and_their_schemas_travel_well(inspect):
    listed = inspect("tools/list", "--strict")
    assert listed.returncode == 0, listed.stderr
    assert [tool["name"] for tool in json.loads(listed.stdout)["tools"]] == TOOLS


def test_tools_are_called(yard, inspect):
    written = inspect(
        *("tools/call", "--tool-name", "Write"), *("--tool-arg", "file_path=a.txt", "--tool-arg", "content=one")
    )
    read = inspect("tools/call", "--tool-name", "Read", "--tool-arg", "file_path=a.txt")
    assert (written.returncode, read.returncode) == (0, 0), written.stderr + read.stderr
    assert (yard.workspace / "a.txt").read_text() == "one"
    assert json.loads(read.stdout)["content"] == [{"type": "text", "text": "     1\tone"}]


def test_a_refusal_is_a_result_with_our_message_and_code(inspect):
    refused = inspect("tools/call", "--tool-name", "Read", "--tool-arg", "file_path=/etc/passwd")
    result = json.loads(refused.stdout)
    assert (result["isError"], result["structuredContent"]["error"]["code"]) == (True, -32001)
    assert "Reading /etc/passwd is outside the workspace" in result["content"][0]["text"]


def test_resources_are_listed_and_read(yard, inspect):
    (yard.workspace / "a.txt").write_text("one\n")
    (listed,) = json.loads(inspect("resources/list").stdout)["resources"]
    contents = json.loads(inspect("resources/read", "--uri", listed["uri"]).stdout)["contents"]
    assert (listed["name"], contents[0]["text"]) == ("a.txt", "one\n")
