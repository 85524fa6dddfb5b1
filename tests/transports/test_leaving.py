"""How a server leaves: what was done last is kept and shared, though the client does not wait for long."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CONFIG = "toolyard: {workspace: team}\nagents: [{id: a}, {id: b}]\n"
DEADLINE_SECONDS = 50
# `toolyard`, which says when it begins to close the workspace and waits there until it is told to go on.
PROGRAM = """
import sys
from toolyard.app.yard import Yard
from toolyard.cli.main import main
door, close = sys.argv.pop(1), Yard.close
def told(yard):
    sys.stderr.write("closing\\n")
    sys.stderr.flush()
    open(door).close()
    close(yard)
Yard.close = told
main()
"""
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "me", "version": "1"}}


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_signals_that_follow_the_first_take_nothing_away(tmp_path: Path, first: signal.Signals) -> None:
    """Claude Code, for one, sends SIGINT and a tenth of a second later SIGTERM."""
    (tmp_path / "team.yaml").write_text(CONFIG)
    door = tmp_path / "door"
    os.mkfifo(door)
    where = ("--config", str(tmp_path / "team.yaml"), "--state", str(tmp_path / "state"), "--agent", "a")
    command = [sys.executable, "-c", PROGRAM, str(door), "mcp", "--tools", "claude,workspace", *where]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as server:
        try:
            ask(server, "initialize", HELLO)
            written = ask(
                server, "tools/call", {"name": "Write", "arguments": {"file_path": "app.py", "content": "x"}}
            )
            assert not written["result"]["isError"]
            server.send_signal(first)
            assert server.stderr is not None
            assert "closing\n" in iter(server.stderr.readline, "")
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
                server.send_signal(number)
            opened = os.open(door, os.O_RDWR)  # it goes on, if it is still there
            assert server.wait(DEADLINE_SECONDS) == 0
            os.close(opened)
        finally:
            server.kill()
    assert (tmp_path / "team/shared/a/app.py").read_text() == "x"


def ask(server: subprocess.Popen[str], method: str, params: dict[str, Any]) -> dict[str, Any]:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())
