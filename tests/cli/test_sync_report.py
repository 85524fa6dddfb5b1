"""What `toolyard sync` shows a person when there is much to show."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-m", "toolyard.testing.upstream_server", "--tools", "50"]


def test_many_new_tools_are_told_server_by_server(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    config = tmp_path / "team.yaml"
    servers = {name: {"command": COMMAND} for name in ("one", "two")}
    config.write_text(json.dumps({"toolyard": {"workspace": "ws", "available_mcp_servers": servers}}))
    words = [sys.executable, "-m", "toolyard", "sync", "--config", str(config), "--state", str(tmp_path / "state")]
    told = subprocess.run(words, capture_output=True, text=True, timeout=50, check=True, cwd=tmp_path).stdout
    lines = told.splitlines()
    assert lines[0].startswith("118 tools of 2 servers; asked 2,")
    assert sorted(lines[1:3]) == ["  + one: 59 tools", "  + two: 59 tools"]
    assert len(lines) == 4
