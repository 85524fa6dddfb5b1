"""The sandbox is started when a client has listed the tools, so that its first command finds it ready."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from types import SimpleNamespace

import pytest

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.core.errors import SecurityError
from toolyard.transports.mcp.server import YardServer

LONGEST_WAIT = 20.0
GONE_SECONDS = 1.0
ANYBODY = SimpleNamespace(request=None, session=SimpleNamespace(client_params=None))


class Chooser:
    """Stands for choosing a sandbox: tells when it is asked, and takes until it is let go."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.release = threading.Event()
        self.times = 0

    def __call__(self):
        self.times += 1
        self.asked.set()
        self.release.wait(LONGEST_WAIT)
        raise SecurityError("There is none.")


@pytest.fixture
def opened(tmp_path):
    """A yard whose sandbox is chosen by a Chooser."""
    made: list[tuple[Yard, Chooser]] = []

    def opener(toolset: Toolset = Toolset.CLAUDE, **execution) -> tuple[Yard, Chooser]:
        config = Config.model_validate({"toolyard": {"code_execution": execution}})
        (tmp_path / "ws").mkdir()
        options = YardOptions(str(tmp_path / "ws"), config, toolset=toolset, state_home=str(tmp_path / "state"))
        yard, chooser = Yard.open(options), Chooser()
        yard.sandboxes._choose = chooser
        made.append((yard, chooser))
        return yard, chooser

    yield opener
    for yard, chooser in made:
        chooser.release.set()
        yard.close()


async def test_listing_starts_it_once_and_waits_for_nothing(opened):
    yard, chooser = opened()
    server = YardServer(yard, "test")
    for _ in range(3):
        listed = await server.list_tools(ANYBODY, None)
        assert "Bash" in {tool.name for tool in listed.tools}
    assert not chooser.release.is_set()
    assert await asyncio.to_thread(chooser.asked.wait, LONGEST_WAIT)
    assert chooser.times == 1


@pytest.mark.parametrize("options", [{"toolset": Toolset.REFERENCE}, {"enabled": False}])
async def test_where_nothing_can_run_nothing_is_started(opened, options):
    yard, chooser = opened(**options)
    before = set(threading.enumerate())  # those of the test before may be ending
    await YardServer(yard, "test").list_tools(ANYBODY, None)
    assert (set(threading.enumerate()) - before, chooser.times) == (set(), 0)


def test_the_sandbox_is_up_before_the_first_command(place, wait_until, children, modern):
    with place.stdio(modern=modern) as client:
        pid = client.process.pid
        assert "bwrap" not in children(pid)
        client.request("tools/list")
        wait_until(lambda: "bwrap" in children(pid))
        assert client.call("Bash", command="echo up")["result"]["structuredContent"]["stdout"] == "up\n"
        assert children(pid).count("bwrap") == 1


def processes_about(path: str) -> list[str]:
    """The command lines that name this path."""
    found: list[str] = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{entry}/cmdline") as line:
            found += [text for text in [line.read()] if path in text]
    return found


def test_a_server_that_is_closed_while_it_warms_up_leaves_nothing_behind(place, wait_until):
    with place.stdio() as client:
        client.request("tools/list")
        assert client.close() == 0
    wait_until(lambda: not processes_about(place.workspace), GONE_SECONDS)
