"""A team's configuration that is used for the first time, by real processes and by several at once."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from toolyard.testing.mcp_client import StdioClient

SECONDS = 60
TEAM = """
toolyard:
  workspace: team
  available_mcp_servers: []
agents:
  - {id: agent_a, memory: {allow_read_from: [agent_b]}}
  - {id: agent_b}
"""
FOLDERS = {
    f"agents/{agent}/{part}" for agent in ("agent_a", "agent_b") for part in ("workspace", "memory", "tasks")
} | {"servers", "tools", "skills/community", "skills/agent_a", "skills/agent_b", "shared"}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path.resolve() / "team.yaml"
    path.write_text(TEAM)
    return path


def command(config: Path, *words: str) -> list[str]:
    name, *rest = words
    where = ["--config", str(config), "--state", str(config.parent / "state")]
    return [sys.executable, "-m", "toolyard", name, *where, *rest]


def environment(config: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(config.parent / "home"), "XDG_STATE_HOME": str(config.parent / "state")}


def test_several_processes_use_a_fresh_configuration_at_once(config: Path) -> None:
    code = "import os\nopen('memory/mine.txt', 'a').write('x')\nprint(os.getcwd(), sorted(os.listdir('skills')))"
    running = [
        subprocess.Popen(
            command(config, "exec", "--agent", agent, "-c", code),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(config),
        )
        for agent in ("agent_a", "agent_b", "agent_a")
    ]
    try:
        ended = [(process.communicate(timeout=SECONDS), process.returncode) for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    root = config.parent / "team"
    shown = "['agent_a', 'agent_b', 'community']"
    for agent, ((out, err), code_) in zip(("agent_a", "agent_b", "agent_a"), ended, strict=True):
        assert code_ == 0, err
        assert out.strip() == f"{root}/agents/{agent}/workspace {shown}"
    assert {folder for folder in FOLDERS if not (root / folder).is_dir()} == set()
    assert (root / "agents/agent_a/memory/mine.txt").read_text() == "xx"


def test_the_server_of_an_agent_stands_in_its_folder(config: Path) -> None:
    with StdioClient(
        command(config, "mcp", "--agent", "agent_a", "--tools", "all"), env=environment(config)
    ) as client:
        client.call("Write", file_path="memory/note.md", content="remember me")
        client.call("Write", file_path="work.txt", content="work")
    own = config.parent / "team/agents/agent_a"
    assert (own / "memory/note.md").read_text() == "remember me"
    assert (own / "workspace/work.txt").read_text() == "work"


def test_a_fresh_start_is_told_with_the_snapshot_that_undoes_it(config: Path) -> None:
    config.write_text(json.dumps({"agents": [{"id": "a", "backend": {"cwd": "work", "fresh": True}}]}))
    (config.parent / "work").mkdir()
    (config.parent / "work/old.txt").write_text("old")
    done = subprocess.run(
        command(config, "mcp"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env=environment(config),
    )
    assert done.returncode == 0, done.stderr
    assert "was emptied for a fresh start; `toolyard snapshot restore " in done.stderr
    assert os.listdir(config.parent / "work") == []
    printed = done.stderr.split("`")[1]
    restored = subprocess.run(
        [sys.executable, "-m", *shlex.split(printed)],
        capture_output=True,
        timeout=SECONDS,
        check=False,
        cwd=config.parent,
        env=environment(config),
    )
    assert restored.returncode == 0, restored.stderr
    assert os.listdir(config.parent / "work") == ["old.txt"]
