"""The agents of one run share their upstream servers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from toolyard.team.events import EndReason, ToolReturned
from toolyard.testing.mock_model import Call, Say

AGENTS = ("a", "b", "c")
SERVERS = ("one", "two")
# Adds a line to a file when it is started; its only tool says which process it is.
SERVER = """
import json, os, sys
open(sys.argv[1], "a").write(f"{os.getpid()}\\n")
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s"}},
        "tools/list": {"tools": [{"name": "pid", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": str(os.getpid())}]},
    }.get(message["method"], {})
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


@pytest.mark.parametrize(("shared", "processes"), [(True, 1), (False, len(AGENTS))], ids=["shared", "not shared"])
def test_agents_of_one_run_use_one_process_of_each_server(team_of, tmp_path: Path, shared: bool, processes: int):
    (tmp_path / "server.py").write_text(SERVER)
    calls = [Call(f"{server}__pid", {}) for server in SERVERS]
    team = team_of(**{agent: [*calls, Say("VOTE: a" if agent != "a" else "Done.")] for agent in AGENTS})
    entries = [
        {
            "name": server,
            "command": sys.executable,
            "args": [str(tmp_path / "server.py"), str(tmp_path / f"starts-{server}")],
            "shared": shared,
        }
        for server in SERVERS
    ]
    team.more = {
        "toolyard": {"available_mcp_servers": entries},
        "permissions": {"allow": ["mcp__one__pid", "mcp__two__pid"]},
    }

    finished = team.run(AGENTS)

    assert finished.ended in {EndReason.ANSWERED, EndReason.CONSENSUS, EndReason.ROUNDS}
    returned = team.heard(ToolReturned)
    assert [each.ok for each in returned] == [True] * len(AGENTS) * len(SERVERS)
    for server in SERVERS:
        asked, *used = (tmp_path / f"starts-{server}").read_text().split()  # the first one was asked for its tools
        assert (asked not in used, len(used)) == (True, processes)
