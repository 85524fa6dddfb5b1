"""Seven published servers and a custom tool in one configuration, with two agents that share a workspace.

Synced once for all tests. Tests that write use names of their own; each run of a command has server processes of its
own, which are gone when it ends.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e import published
from toolyard.testing.mcp_client import StdioClient

TOOLYARD = str(pathlib.Path(sys.executable).with_name("toolyard"))
RUN_SECONDS = 90
SHOP = '''
def price_of(part: str, count: int = 1) -> float:
    """What a number of parts costs."""
    return {"bolt": 0.5, "nut": 0.25}[part] * count
'''


@dataclass(frozen=True)
class Team:
    """A configuration, its workspace, and a folder of data that the servers work on."""

    base: pathlib.Path
    state: str = "state"

    @property
    def config(self) -> pathlib.Path:
        return self.base / "team.yaml"

    @property
    def workspace(self) -> pathlib.Path:
        return self.base / "ws"

    @property
    def data(self) -> pathlib.Path:
        return self.base / "data"

    @property
    def repository(self) -> pathlib.Path:
        return self.data / "repo"

    def command(self, *words: str) -> list[str]:
        return [TOOLYARD, *words, "--config", str(self.config), "--state", str(self.base / self.state)]

    def run(self, *words: str, code: int = 0) -> str:
        """What a command prints. Its stderr too, where it is meant to fail."""
        ran = subprocess.run(
            self.command(*words), capture_output=True, text=True, timeout=RUN_SECONDS, check=False, cwd=self.base
        )
        assert ran.returncode == code, ran.stdout + ran.stderr
        return ran.stdout + (ran.stderr if code else "")

    def python(self, code: str, agent: str = "agent_a") -> str:
        """What a piece of an agent's code prints, run by `toolyard exec`."""
        return self.run("exec", "--agent", agent, "-c", code)

    def bash(self, command: str, agent: str = "agent_a") -> str:
        return self.run("exec", "--agent", agent, "--bash", "-c", command)

    def client(self, *options: str) -> StdioClient:
        return StdioClient(self.command("mcp", *options))

    def still_running(self) -> list[str]:
        """The command lines of processes that were started for this team."""
        found: list[str] = []
        for entry in os.scandir("/proc"):
            if entry.name.isdecimal():
                try:
                    words = pathlib.Path(entry.path, "cmdline").read_bytes().decode(errors="replace").split("\0")
                except OSError:
                    continue
                if any(str(self.base) in word for word in words):
                    found.append(" ".join(words))
        return found


def servers(data: pathlib.Path) -> dict[str, dict[str, Any]]:
    """Entries of the published servers, in the words of a configuration."""
    return {
        "everything": {"command": published.node_server("everything")},
        "filesystem": {"command": [*published.node_server("filesystem"), str(data)]},
        "memory": {
            "command": published.node_server("memory"),
            "env": {"MEMORY_FILE_PATH": str(data / "memory.jsonl")},
        },
        "sequential-thinking": {"command": published.node_server("sequential-thinking")},
        "git": {"command": published.python_server("mcp-server-git")},
        "sqlite": {"command": [published.python_server("mcp-server-sqlite"), "--db-path", str(data / "shop.db")]},
        "time": {"command": [published.python_server("mcp-server-time"), "--local-timezone", "UTC"]},
    }


def make_team(base: pathlib.Path, entries: dict[str, dict[str, Any]], **section: Any) -> Team:
    team = Team(base)
    for folder in (team.workspace, team.repository):
        folder.mkdir(parents=True)
    config = {
        "toolyard": {"workspace": "ws", "available_mcp_servers": entries, **section},
        "agents": [{"id": "agent_a"}, {"id": "agent_b"}],
    }
    team.config.write_text(json.dumps(config))  # which is YAML, too
    return team


@pytest.fixture(scope="session")
def team(tmp_path_factory) -> Iterator[Team]:
    base = tmp_path_factory.mktemp("team")
    (base / "shop.py").write_text(SHOP)
    made = make_team(
        base, servers(base / "data"), available_custom_tools=[{"group": "shop", "path": str(base / "shop.py")}]
    )
    identity = ("user.name=Ada", "user.email=ada@example.org")
    subprocess.run(["git", "init", "-q", made.repository], check=True)
    for setting in identity:
        name, _, value = setting.partition("=")
        subprocess.run(["git", "-C", made.repository, "config", name, value], check=True)
    report = json.loads(made.run("sync", "--json"))
    assert (report["servers"], report["failed"]) == (7, [])
    yield made
    assert made.still_running() == []
