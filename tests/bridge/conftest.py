"""A server on the bridge and a client with files, connected: in memory, over stdio and over HTTP, in both eras."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.bridge.agent import Agent, Script
from tests.bridge.server import build
from toolyard.bridge import FileCache

LEGACY, MODERN = "legacy", "2026-07-28"
ROOT = "/home/me/project"
"""Where the project is at the client's: nowhere on this machine."""
SERVER = str(Path(__file__).with_name("server.py"))
PROCESSES = [
    pytest.param((way, era), marks=pytest.mark.slow, id=f"{way}-{era}")
    for way, era in (("stdio", LEGACY), ("http", MODERN))
]
OTHERWISE = [
    pytest.param((way, era), marks=pytest.mark.slow, id=f"{way}-{era}")
    for way, era in (("stdio", MODERN), ("http", LEGACY))
]
IN_MEMORY = [pytest.param(("memory", era), id=f"memory-{era}") for era in (LEGACY, MODERN)]


@dataclass
class Wishes:
    """How a server is started."""

    root: str | None = ROOT
    allow: list[str] | None = None
    seconds: float = 20.0
    violations: int = 5
    ttl: float = 3600.0
    cache_bytes: int = 1 << 20
    disk: tuple[str, ...] = ()
    state: str | None = None
    revalidate: float = 5.0
    max_age: float = 300.0

    def options(self) -> list[str]:
        made = ["--seconds", str(self.seconds), "--violations", str(self.violations), "--ttl", str(self.ttl)]
        made += ["--cache-bytes", str(self.cache_bytes)]
        made += ["--revalidate", str(self.revalidate), "--max-age", str(self.max_age)]
        made += ["--root", self.root] if self.root else []
        made += ["--state", self.state] if self.state else []
        for name, values in (("--allow", self.allow or []), ("--disk", self.disk)):
            for value in values:
                made += [name, value]
        return made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The files of the client."""
    made = tmp_path / "client"
    for folder in ("src/inner", "docs", "tests"):
        (made / folder).mkdir(parents=True)
    (made / "src" / "a.py").write_text("print('a')\n")
    (made / "src" / "b.txt").write_text("bé\n")
    (made / "src" / "inner" / "c.py").write_text("c = 3\n")
    (made / "docs" / "page.md").write_text("# A page\n")
    (made / "docs" / "picture.bin").write_bytes(bytes(range(256)))
    (made / ".env").write_text("KEY=secret\n")
    return made


Connect = Callable[..., contextlib.AbstractAsyncContextManager[Agent]]


@pytest.fixture(params=[*IN_MEMORY, *PROCESSES])
def connect(request: pytest.FixtureRequest, project: Path) -> Connect:
    """Each test of a scenario runs on every way between the two."""
    way, era = request.param
    return _connecting(way, era, project)


@pytest.fixture(params=OTHERWISE)
def connect_otherwise(request: pytest.FixtureRequest, project: Path) -> Connect:
    way, era = request.param
    return _connecting(way, era, project)


@pytest.fixture(params=IN_MEMORY)
def connect_inside(request: pytest.FixtureRequest, project: Path) -> Connect:
    way, era = request.param
    return _connecting(way, era, project)


def _connecting(way: str, era: str, project: Path) -> Connect:
    @contextlib.asynccontextmanager
    async def opened(
        script: Script | None = None,
        *,
        sampling: bool = True,
        tools: bool = False,
        roots: list[str] | None = None,
        **wishes: Any,
    ) -> AsyncIterator[Agent]:
        agent = Agent(project, wishes.get("root", ROOT) or ROOT, script)
        agent.with_tools = tools
        options = _client_options(agent, sampling=sampling, tools=tools, roots=roots)
        async with contextlib.AsyncExitStack() as stack:
            target = await _target(way, Wishes(**wishes), stack)
            agent.client = await stack.enter_async_context(Client(target, mode=era, **options))
            yield agent

    return opened


def _client_options(agent: Agent, *, sampling: bool, tools: bool, roots: list[str] | None) -> dict[str, Any]:
    options: dict[str, Any] = {"client_info": types.Implementation(name="scripted", version="1.0")}
    if sampling:
        options["sampling_callback"] = agent.sampled
        if tools:
            options["sampling_capabilities"] = types.SamplingCapability(tools=types.SamplingToolsCapability())
    if roots is not None:

        async def listed(_: Any) -> types.ListRootsResult:
            return types.ListRootsResult(roots=[types.Root(uri=uri) for uri in roots])

        options["list_roots_callback"] = listed
    return options


async def _target(way: str, wishes: Wishes, stack: contextlib.AsyncExitStack) -> Any:
    if way == "memory":
        cache = stack.enter_context(FileCache(wishes.cache_bytes, ttl_seconds=wishes.ttl))
        given = {
            "seconds": wishes.seconds,
            "most_violations": wishes.violations,
            "shared_disk": wishes.disk,
            "cache": cache,
            "revalidate_seconds": wishes.revalidate,
            "max_age_seconds": wishes.max_age,
        }
        return build(given, wishes.root, wishes.allow)[0]
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    if way == "stdio":
        return StdioServerParameters(command=sys.executable, args=[SERVER, *wishes.options()], env=environment)
    command = [sys.executable, SERVER, *wishes.options(), "--http"]
    process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment))
    stack.callback(process.terminate)
    assert process.stdout is not None
    port = int(process.stdout.readline())
    headers = {"Authorization": f"Bearer {secrets.token_hex(8)}"}
    http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=60))
    return streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http)
