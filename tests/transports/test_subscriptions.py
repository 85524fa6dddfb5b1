"""Clients are told when another agent has published: in both eras, over stdio and HTTP, with and without the SDK."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading

import httpx2
import pytest
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.loader import load_config
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.sharing.manifest import PublicationStep
from toolyard.transports.mcp import publish_watch
from toolyard.transports.mcp.http import ListenAddress, http_app, listen
from toolyard.transports.mcp.serve_stdio import serve_lines

SECONDS = 30
TOKEN = "the-token-of-the-tests"
LIST_CHANGED = "notifications/resources/list_changed"
UPDATED = "notifications/resources/updated"
CLIENT = {"name": "tests", "version": "1"}
MODERN = {
    PROTOCOL_VERSION_META_KEY: MODERN_PROTOCOL_VERSIONS[-1],
    CLIENT_CAPABILITIES_META_KEY: {},
    CLIENT_INFO_META_KEY: CLIENT,
}
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": LATEST_HANDSHAKE_VERSION, "capabilities": {}, "clientInfo": CLIENT},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Team:
    def __init__(self, path):
        self.path = path
        (path / "team").mkdir()
        (path / "team.yaml").write_text("toolyard: {workspace: team}\nagents: [{id: agent_a}, {id: agent_b}]\n")
        self.config = load_config(str(path / "team.yaml"))
        self.opened = contextlib.ExitStack()
        self.a, self.b = self.open("agent_a"), self.open("agent_b")
        self.number = 0

    def open(self, agent):
        work = self.path / "team/agents" / agent / "workspace"
        work.mkdir(parents=True, exist_ok=True)
        settings = Settings.from_environment({"HOME": str(self.path), "XDG_STATE_HOME": str(self.path / "state")})
        options = YardOptions(str(work), self.config, settings=settings, agent=agent, toolset=Toolset.CLAUDE)
        return self.opened.enter_context(Yard.open(options))

    async def publish(self, name="x.txt"):
        def work():
            self.number += 1
            with open(os.path.join(self.b.home.workspace, name), "w") as file:
                file.write(str(self.number))
            self.b.snapshots.create()
            assert self.b.sharing.flush(SECONDS)

        await asyncio.to_thread(work)


@pytest.fixture
def team(tmp_path, monkeypatch):
    monkeypatch.setattr(publish_watch, "_POLL_SECONDS", 0.02)
    made = Team(tmp_path.resolve())
    with made.opened:
        yield made


class Wire:
    """A client at the other end of two pipes."""

    def __init__(self, yard):
        self.from_client, self._out = os.pipe()
        self._in, self.to_client = os.pipe()
        self._lines = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._serving = self._loop.create_task(serve_lines(yard, self.from_client, self.to_client))
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        with os.fdopen(self._in, "rb") as file:
            for line in file:
                self._loop.call_soon_threadsafe(self._lines.put_nowait, json.loads(line))

    def send(self, *messages):
        for message in messages:
            os.write(self._out, json.dumps(message).encode() + b"\n")

    async def until(self, wanted):
        """What comes up to the first message that `wanted` is true for."""
        seen = []
        async with asyncio.timeout(SECONDS):
            while not seen or not wanted(seen[-1]):
                seen.append(await self._lines.get())
        return seen

    async def answer(self, number):
        return (await self.until(lambda message: message.get("id") == number))[-1]

    async def notice(self, method):
        return (await self.until(lambda message: message.get("method") == method))[-1]

    async def close(self):
        os.close(self._out)
        await self._serving
        os.close(self.from_client)
        os.close(self.to_client)
        await asyncio.to_thread(self._reader.join)


@contextlib.asynccontextmanager
async def wired(yard):
    wire = Wire(yard)
    try:
        yield wire
    finally:
        await wire.close()


def request(number, method, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


async def test_a_client_that_shook_hands_is_told_before_the_sdk_is_loaded(team):
    async with wired(team.a) as wire:
        wire.send(HELLO, INITIALIZED)
        said = (await wire.answer(0))["result"]["capabilities"]["resources"]
        wire.send(request(1, "ping"))
        await wire.answer(1)
        await team.publish()

        assert await wire.notice(LIST_CHANGED) == {"jsonrpc": "2.0", "method": LIST_CHANGED}
        assert said == {"listChanged": True, "subscribe": True}


async def test_it_is_told_once_for_each_publication(team):
    async with wired(team.a) as wire:
        wire.send(HELLO, INITIALIZED, request(1, "ping"))
        await wire.answer(1)
        for _ in range(3):
            await team.publish()
            before = await wire.until(lambda message: message.get("method") == LIST_CHANGED)
            assert len(before) == 1


async def test_a_subscriber_is_told_of_its_files_alone(team):
    uri = f"file://{team.a.home.shared_folder}/agent_b"
    linked = f"file://{team.a.home.workspace}/shared/agent_b"
    async with wired(team.a) as wire:
        wire.send(HELLO, INITIALIZED)
        for number, name in enumerate([f"{uri}/x.txt", f"{linked}/y.txt", f"{uri}/z.txt"], start=1):
            wire.send(request(number, "resources/subscribe", uri=name))
            assert (await wire.answer(number))["result"] == {}
        await team.publish("w.txt")
        await wire.notice(LIST_CHANGED)
        await team.publish("x.txt")
        first = await wire.until(lambda message: message.get("method") == UPDATED)
        await team.publish("y.txt")
        second = await wire.until(lambda message: message.get("method") == UPDATED)
        wire.send(request(9, "resources/unsubscribe", uri=f"{uri}/x.txt"))
        await wire.answer(9)
        await team.publish("x.txt")
        await wire.notice(LIST_CHANGED)
        wire.send(request(10, "ping"))
        third = await wire.until(lambda message: message.get("id") == 10)

    assert [message["method"] for message in first] == [LIST_CHANGED, UPDATED]
    assert first[-1]["params"]["uri"] == f"{uri}/x.txt"
    assert second[-1]["params"]["uri"] == f"{linked}/y.txt"
    assert [message for message in third if message.get("method") == UPDATED] == []


async def test_a_client_of_the_later_era_is_told_on_the_stream_it_opened(team):
    uri = f"file://{team.a.home.shared_folder}/agent_b/x.txt"
    async with wired(team.a) as wire:
        wire.send(request(1, "server/discover", _meta=MODERN))
        said = (await wire.answer(1))["result"]["capabilities"]["resources"]
        wanted = {"resourcesListChanged": True, "resourceSubscriptions": [uri]}
        wire.send(request(2, "subscriptions/listen", notifications=wanted, _meta=MODERN))
        await wire.until(lambda message: "acknowledged" in message.get("method", ""))
        await team.publish()
        seen = await wire.until(lambda message: message.get("method") == UPDATED)

    assert said == {"listChanged": True, "subscribe": True}
    assert [message["method"] for message in seen] == [LIST_CHANGED, UPDATED]
    assert seen[-1]["params"]["uri"] == uri


async def test_a_client_of_the_later_era_that_does_not_listen_is_told_nothing(team):
    async with wired(team.a) as wire:
        wire.send(request(1, "server/discover", _meta=MODERN))
        await wire.answer(1)
        await team.publish()
        call = {"name": "Read", "arguments": {"file_path": "shared/agent_b/x.txt"}}
        wire.send(request(2, "tools/call", **call, _meta=MODERN))
        seen = await wire.until(lambda message: message.get("id") == 2)

    assert [message for message in seen if "method" in message] == []
    assert "[agent_b changed 1 file: shared/agent_b/x.txt]" in json.dumps(seen[-1])


async def test_an_agent_alone_says_that_it_tells_of_nothing(tmp_path):
    work = tmp_path / "ws"
    work.mkdir()
    settings = Settings.from_environment({"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")})
    with Yard.open(YardOptions(str(work), Config(), settings=settings)) as yard:
        async with wired(yard) as wire:
            wire.send(HELLO)
            said = (await wire.answer(0))["result"]["capabilities"]["resources"]

    assert said == {"listChanged": False, "subscribe": False}


@contextlib.asynccontextmanager
async def over_http(yard, mode, **options):
    """The SDK's own client, on a server in this loop."""
    address = ListenAddress("127.0.0.1", 0)
    listener = listen(address)
    port = listener.getsockname()[1]
    app = http_app(yard, TOKEN, ListenAddress("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1))
    serving = asyncio.get_running_loop().create_task(server.serve(sockets=[listener]))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    try:
        async with httpx2.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http)
            async with Client(transport, mode=mode, **options) as client:
                yield client
    finally:
        server.should_exit = True
        await serving


async def test_a_client_that_shook_hands_over_http_is_told(team):
    told = asyncio.Event()

    async def heard(message):
        if getattr(message, "method", "") == LIST_CHANGED:
            told.set()

    async with over_http(team.a, "legacy", message_handler=heard) as client:
        await client.list_tools()
        async with asyncio.timeout(SECONDS):
            while not told.is_set():  # it hears what comes once its stream is open, and nobody can tell when that is
                await team.publish()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(told.wait(), 0.2)


async def test_a_client_of_the_later_era_over_http_is_told_on_its_stream(team):
    uri = f"file://{team.a.home.shared_folder}/agent_b/x.txt"
    async with (
        over_http(team.a, "2026-07-28") as client,
        client.listen(resources_list_changed=True, resource_subscriptions=[uri]) as stream,
    ):
        await team.publish()
        seen = []
        async with asyncio.timeout(SECONDS):
            async for event in stream:
                seen.append(type(event).__name__)
                if seen[-1] == "ResourceUpdated":
                    break

    assert seen == ["ResourcesListChanged", "ResourceUpdated"]


def test_a_file_of_an_odd_name_is_known_as_changed():
    changed = publish_watch.PeerPublication("/root/shared/b", PublicationStep("id", 1, (r"x\ny",)))

    assert changed.affects("/root/shared/b/x\ny")
    assert not changed.affects("/root/shared/b/x")
