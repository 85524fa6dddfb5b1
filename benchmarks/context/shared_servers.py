"""Agents that all call the same servers: how many processes of servers that takes.

Each agent calls one tool of each server. The servers are the scripted one of `toolyard.testing`, started as a user's
would be.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Generator

from benchmarks.benchmark import Bench
from benchmarks.context.fixture import Heard, ModelProgram, Step, Team
from benchmarks.report import Row, at_most
from toolyard.team.events import ToolReturned

_AGENTS = 10
_SERVERS = 10
_LOOK_SECONDS = 0.05
_PROGRAM = "toolyard.testing.mock_mcp_server"


def measure_servers(bench: Bench) -> list[Row]:
    agents, servers = min(_AGENTS, bench.sizes.agents), min(_SERVERS, bench.sizes.servers)
    bench.say(f"{agents} agents, {servers} servers")
    names = [f"s{number:02}" for number in range(servers)]
    steps: list[Step] = [{"call": f"{name}__echo", "arguments": {"text": "hi"}} for name in names]
    entries = [{"name": name, "command": sys.executable, "args": ["-m", _PROGRAM]} for name in names]
    heard = Heard()
    with ModelProgram(bench.folder("servers-model"), steps) as model:
        team = Team.of(bench.folder("servers-team"), agents, bench.settings, model.access, servers=entries)
        with _most_processes() as most:
            team.run(heard)
    failed = sum(1 for each in heard.events if isinstance(each, ToolReturned) and not each.ok)
    has = f"{agents} agents, {servers} servers"
    return [
        at_most(f"{has}: processes of servers", "processes", max(most), servers, note="the most at once"),
        at_most(f"{has}: calls that failed", "calls", failed, 0, note=f"of {agents * servers}"),
    ]


@contextlib.contextmanager
def _most_processes() -> Generator[list[int]]:
    """How many servers this process has had at once, looked at again and again while the block runs."""
    is_over, seen = threading.Event(), [0]

    def look() -> None:
        while not is_over.wait(_LOOK_SECONDS):
            seen[0] = max(seen[0], sum(map(_is_server, _children())))

    thread = threading.Thread(target=look, name="bench", daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()


def _children() -> list[str]:
    found: list[str] = []
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
            found += file.read().split()
    return found


def _is_server(pid: str) -> bool:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return _PROGRAM.encode() in file.read()
    return False
