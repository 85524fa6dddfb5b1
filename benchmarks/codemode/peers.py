"""Others who call tools: the SDK's own client, which has nothing in between, and FastMCP's code mode.

Each is a process of its own that calls the same server program as we do, told over its stdin what to do and how
often; it answers with milliseconds. FastMCP is installed with uv or pip into the user's cache folder, never into our
environment.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import IO, cast

from benchmarks.codemode.fixture import program
from benchmarks.lean_client import BenchFault
from toolyard.core.closeable import Closeable

FASTMCP = "fastmcp[code-mode]"
_CLOSE_SECONDS = 10
_INSTALL_SECONDS = 300
_DIRECT = """\
import asyncio, json, statistics, sys, time
from mcp import Client, StdioServerParameters

command, *arguments = json.loads(sys.argv[1])
server = StdioServerParameters(command=command, args=arguments)


async def add(client, number):
    result = await client.call_tool("add", {"a": number, "b": 1})
    assert result.structured_content == {"sum": number + 1}, result


async def calls(client, count):
    taken = []
    for number in range(count):
        started = time.perf_counter()
        await add(client, number)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


async def parallel(client, count):
    started = time.perf_counter()
    await asyncio.gather(*(add(client, number) for number in range(count)))
    return time.perf_counter() - started


async def start(client, count):
    started = time.perf_counter()
    async with Client(server) as other:
        await other.list_tools()
        await add(other, count)
        return time.perf_counter() - started


async def main():
    async with Client(server) as client:
        await add(client, 0)
        for line in sys.stdin:
            what, count = json.loads(line)
            print(await globals()[what](client, count) * 1e3, flush=True)


asyncio.run(main())
"""
_CODE_MODE = '''\
import asyncio, json, sys, time
from fastmcp import Client
from fastmcp.experimental.transforms.code_mode import CodeMode
from fastmcp.server import create_proxy

command, *arguments = json.loads(sys.argv[1])
CODE = """
total = 0
for number in range(COUNT):
    total += (await call_tool("add", {"a": number, "b": 1}))["sum"]
return total
"""


async def main():
    server = create_proxy({"mcpServers": {"peer": {"command": command, "args": arguments}}}, name="peer")
    server.add_transform(CodeMode(max_tool_calls=None))
    async with Client(server) as client:
        for line in sys.stdin:
            what, count = json.loads(line)
            assert what == "calls", what
            started = time.perf_counter()
            result = await client.call_tool("execute", {"code": CODE.replace("COUNT", str(count))})
            taken = time.perf_counter() - started
            assert result.content[0].text == str(count * (count + 1) // 2), result
            print(taken / count * 1e3, flush=True)


asyncio.run(main())
'''


class Peer(Closeable):
    """One process; `close()` ends it."""

    def __init__(self, python: str, script: str) -> None:
        command = (python, "-c", script, json.dumps(program()))
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._in = cast("IO[str]", self._process.stdin)
        self._out = cast("IO[str]", self._process.stdout)

    def close(self) -> None:
        try:
            self._process.communicate(timeout=_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def ask(self, what: str, count: int) -> float:
        """Milliseconds: of one of `count` calls, of that many at once, or of a start."""
        try:
            self._in.write(json.dumps([what, count]) + "\n")
            self._in.flush()
            return float(self._out.readline())
        except (ValueError, OSError):
            _, said = self._process.communicate()
            last = (said.strip().splitlines() or ["it said nothing"])[-1]
            raise BenchFault(f"A peer failed: {last}") from None


def direct() -> Peer:
    """The SDK's client."""
    return Peer(sys.executable, _DIRECT)


def fastmcp_code_mode(cache: str) -> Peer:
    """FastMCP's code mode in front of one server. BenchFault says why it cannot be had."""
    folder = os.path.join(cache, "fastmcp")
    python = os.path.join(folder, "bin", "python")
    if not os.path.isfile(python):
        _install(folder, python)
    return Peer(python, _CODE_MODE)


def _install(folder: str, python: str) -> None:
    uv = shutil.which("uv") or shutil.which("uv", path=os.path.dirname(sys.executable))
    if uv is None:
        steps = ((sys.executable, "-m", "venv", folder), (python, "-m", "pip", "install", "--quiet", FASTMCP))
    else:
        steps = ((uv, "venv", "--quiet", folder), (uv, "pip", "install", "--quiet", "--python", python, FASTMCP))
    try:
        for step in steps:
            subprocess.run(step, check=True, capture_output=True, text=True, timeout=_INSTALL_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(folder, ignore_errors=True)  # half an environment would be taken for a whole one
        said = str(getattr(error, "stderr", None) or error).strip().splitlines()
        raise BenchFault(f"{FASTMCP} could not be installed: {(said or ['no message'])[-1]}") from None
