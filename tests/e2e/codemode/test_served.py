"""The same over MCP: one server for a client, whatever stands behind it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.e2e import published
from toolyard.core.tokens import count_tokens
from toolyard.testing.mcp_client import StdioClient, expect_error, expect_result

from .conftest import make_team

CODE_TOKENS = 2_000
MINIMAL_TOKENS = 400


def said(response: dict[str, Any]) -> str:
    """The text of a result."""
    return "\n".join(block["text"] for block in expect_result(response)["content"] if block["type"] == "text")


def listed(client: StdioClient) -> tuple[set[str], int]:
    """The names of the tools, and what they cost in a model's context."""
    tools = client.request("tools/list")["result"]["tools"]
    return {tool["name"] for tool in tools}, count_tokens(
        json.dumps(tools, ensure_ascii=False, separators=(",", ":"))
    )


def test_code_mode_finds_reads_calls_and_keeps_over_one_server(team):
    with team.client("--tools", "code", "--agent", "agent_a") as client:
        names, tokens = listed(client)
        assert {"search_tools", "execute_python", "execute_bash", "Read", "Write", "Edit"} <= names
        assert tokens <= CODE_TOKENS
        found = said(client.call("search_tools", query="write text to a file", top=3))
        assert re.search(r"from servers\.filesystem(_server)? import write_file", found)
        assert "write_file(path: str, content: str)" in found
        assert "async def write_file" in said(client.call("Read", file_path="servers/filesystem/write_file.py"))
        assert "git_commit" in said(client.call("execute_bash", command="rg -l commit servers/"))
        path = str(team.data / "served.txt")
        code = (
            "from servers.filesystem_server import write_file, read_text_file\n"
            f"await write_file(path={path!r}, content='from the sandbox')\n"
            f"(await read_text_file(path={path!r}))['content']"
        )
        assert "from the sandbox" in said(client.call("execute_python", code=code))
        assert (team.data / "served.txt").read_text() == "from the sandbox"
        kept = "import toolyard_runtime\ntoolyard_runtime.save_skill('hello', 'def hello(): return 42', 'Say 42')"
        assert "skills/agent_a/hello" in said(client.call("execute_python", code=kept))
        refused = client.call("Write", file_path="servers/filesystem/write_file.py", content="")
        assert expect_error(refused)["code"] == -32001
    with team.client("--tools", "minimal", "--agent", "agent_b") as client:
        used = said(client.call("execute_python", code="from skills.hello import hello\nhello()"))
        assert "42" in used


def test_the_minimal_set_is_two_tools_and_reaches_everything(team):
    with team.client("--tools", "minimal", "--agent", "agent_a") as client:
        names, tokens = listed(client)
        assert names == {"search_tools", "execute_python"}
        assert tokens <= MINIMAL_TOKENS
        found = client.call("search_tools", query="convert a time between time zones")
        (best, *_) = found["result"]["structuredContent"]["tools"]
        assert (best["server"], best["tool"]) == ("time", "convert_time")
        session = {"session": "s"}
        first = "from servers.time import convert_time"
        client.call("execute_python", code=first, **session)
        second = (
            "converted = await convert_time(source_timezone='UTC', time='16:30', target_timezone='Asia/Tokyo')\n"
            "converted['target']['datetime']"
        )
        assert "T01:30:00" in said(client.call("execute_python", code=second, **session))


def test_servers_over_http_and_sse_stand_beside_the_others(tmp_path):
    everything = published.node_server("everything")
    with (
        published.listening(everything, "streamableHttp") as http,
        published.listening(everything, "sse") as sse,
    ):
        team = make_team(
            tmp_path,
            {
                "web": {"url": f"http://127.0.0.1:{http}/mcp"},
                "old": {"url": f"http://127.0.0.1:{sse}/sse"},
                "here": {"command": everything},
            },
        )
        report = json.loads(team.run("sync", "--json"))
        assert (report["servers"], report["failed"]) == (3, [])
        code = (
            "import asyncio\n"
            "import servers.here, servers.old, servers.web\n"
            "for server in (servers.here, servers.old, servers.web):\n"
            "    sums = await asyncio.gather(*(server.get_sum(a=number, b=1) for number in range(20)))\n"
            "    print([f'is {number + 1}.' in one.text for number, one in enumerate(sums)].count(True))"
        )
        assert team.python(code) == "20\n20\n20\n"


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ({"time": ["convert_time"]}, {"search_tools", "time__convert_time"}),
        (
            {"time": "*", "code_execution": ["execute_python"]},
            {"search_tools", "time__convert_time", "time__get_current_time", "execute_python"},
        ),
    ],
)
def test_chosen_tools_stand_in_the_clients_own_list(team, tmp_path, choice, names):
    config = json.loads(team.config.read_text())
    config["toolyard"] |= {"in_context_tools": choice, "workspace": str(team.workspace)}
    (tmp_path / "team.yaml").write_text(json.dumps(config))
    command = team.command("mcp", "--tools", "code", "--agent", "agent_a")
    command[command.index(str(team.config))] = str(tmp_path / "team.yaml")
    with StdioClient(command) as client:
        assert listed(client)[0] == names
        arguments = {"source_timezone": "UTC", "time": "16:30", "target_timezone": "Asia/Tokyo"}
        assert "T01:30:00" in said(client.call("time__convert_time", **arguments))
