"""Servers and tools that come while a session runs."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import growing_server
from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.codemode.sync_report import SyncRequest, run_sync
from toolyard.config.loader import load_config
from toolyard.config.settings import Settings
from toolyard.core import debounce

from .conftest import Place, printed, tool

SECONDS = 20
CALL_TWO = "from servers.two import b\nprint(await b())"


class Session:
    """A configuration file, and yards that are opened with it."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.file = place.folder / "toolyard.yaml"
        self.configure()

    def configure(self, *more: dict[str, Any], **config: Any) -> None:
        entries = [*(server.entry for server in self._place.servers.values()), *more]
        self.file.write_text(json.dumps({"toolyard": {"available_mcp_servers": entries}, **config}))

    def open(self) -> Yard:
        place, home = self._place, str(self._place.folder / "home")
        options = YardOptions(
            workspace=str(place.workspace),
            config=load_config(str(self.file)),
            settings=Settings(home, f"{home}/state", str(place.folder / "temp"), f"{home}/Documents"),
            toolset=Toolset.CODE,
            state_home=str(place.folder / "state"),
        )
        place.yards.append(Yard.open(options))
        return place.yards[-1]

    def sync(self) -> None:
        with self.open() as yard:
            assert run_sync(yard.codemode, SyncRequest()).failed == ()


@pytest.fixture
def session(place: Place) -> Session:
    place.server("one", tool("a"))
    made = Session(place)
    made.sync()
    return made


async def test_a_server_that_is_added_and_synced_can_be_called_in_a_running_session(place: Place, session) -> None:
    yard = session.open()
    assert "'a'" in (await printed(yard, "from servers.one import a\nprint(await a())")).replace('"', "'")
    place.server("two", tool("b"))
    session.configure()
    session.sync()
    assert "'b'" in (await printed(yard, CALL_TWO)).replace('"', "'")
    assert ("mcp__two__b", "allow", "ok") in place.events(yard)


async def test_an_entry_that_differs_from_what_was_synced_is_not_started(place: Place, session) -> None:
    yard = session.open()
    two = place.server("two", tool("b"))
    session.configure()
    session.sync()
    started = two.starts
    two.more["env"] = {"CHANGED": "since the sync"}
    session.configure()
    assert "there is no server 'two'" in await printed(yard, CALL_TWO)
    assert two.starts == started


async def test_an_added_server_is_refused_to_an_agent_that_was_not_given_it(place: Place, session) -> None:
    yard = session.open()
    place.server("two", tool("b"))
    session.configure(agents=[{"id": "agent", "backend": {"exclude_tools": ["two.*"]}}])
    session.sync()
    assert "not authorized" in await printed(yard, CALL_TWO)


async def test_tools_that_a_trusted_server_says_it_has_can_be_called_at_once(
    place: Place, session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debounce, "_DELAY_SECONDS", 3600.0)  # they do not wait for what is written from time to time
    session.configure(
        {"name": "grows", "command": sys.executable, "args": [growing_server.__file__, "grow"], "pinned": False}
    )
    session.sync()
    yard = session.open()
    await printed(yard, "from servers.grows import grow\nprint(await grow())")
    written = Path(place.workspace / "servers/grows/fresh.py")
    async with asyncio.timeout(SECONDS):
        while not written.exists():
            await asyncio.sleep(0.05)
    assert await printed(yard, "from servers.grows import fresh\nprint(await fresh())") == "answer of fresh"


async def test_new_tools_of_a_pinned_server_wait_for_a_sync(place: Place, session) -> None:
    session.configure({"name": "grows", "command": sys.executable, "args": [growing_server.__file__, "grow"]})
    session.sync()
    yard = session.open()
    await printed(yard, "from servers.grows import grow\nprint(await grow())")
    code = "from toolyard_runtime import call_mcp_tool\nprint(await call_mcp_tool('grows', 'fresh', {}))"
    assert "grows has no tool 'fresh'" in await printed(yard, code)
