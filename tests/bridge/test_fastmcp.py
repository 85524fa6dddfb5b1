"""The bridge beside FastMCP 4: the same tool, the same ways, the same errors."""

import json

import mcp_types as types
import pytest
from fastmcp import Context, FastMCP
from mcp import Client

from tests.bridge.agent import Agent
from tests.bridge.conftest import LEGACY, MODERN, ROOT
from toolyard.bridge import BridgeHost, ConfigError, SecurityPolicy


def build(root=ROOT):
    server = FastMCP("somebody's")
    host = BridgeHost(SecurityPolicy(root))
    host.offer(server)

    @server.tool
    @host.asks
    async def read_file(path: str, ctx: Context) -> str:
        return await host.bridge(ctx).read_file(path)

    @server.tool
    @host.asks
    async def list_directory(path: str, ctx: Context) -> str:
        return json.dumps([info.name for info in await host.bridge(ctx).list_directory(path)])

    return server, host


def connected(server, agent, era, *, sampling=True, **options):
    if sampling:
        options["sampling_callback"] = agent.sampled
    # FastMCP's own server over the SDK's client, as any client would reach it.
    return Client(server._mcp_server, mode=era, **options)


async def failure(client, tool, **arguments):
    """What a failed call says to programs; its text says the same to the model."""
    result = await client.call_tool(tool, arguments)
    error = result.structured_content["error"]
    assert result.is_error
    assert error["message"] in result.content[0].text
    return error


@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_files_come_by_sampling(project, era):
    server, _ = build()
    agent = Agent(project, ROOT)
    async with connected(server, agent, era) as client:
        agent.client = client
        assert await agent.call("read_file", path="src/a.py") == "print('a')\n"
        assert json.loads(await agent.call("list_directory", path="src")) == ["a.py", "b.txt", "inner"]


@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_files_come_by_pushing(project, era):
    server, host = build()
    agent = Agent(project, ROOT)
    async with connected(server, agent, era, sampling=False) as client:
        agent.client = client
        error = await failure(client, "read_file", path="src/a.py")
        await agent.push("src/a.py")
        assert await agent.call("read_file", path="src/a.py") == "print('a')\n"
    assert (error["code"], error["reason"]) == (-32603, "sampling_unsupported")
    assert "guide_cache_file" in error["hint"]
    assert host.cache.statistics.entries == 1


async def test_errors_have_their_codes(project):
    server, _ = build()
    agent = Agent(project, ROOT)
    async with connected(server, agent, LEGACY) as client:
        agent.client = client
        refused = await failure(client, "read_file", path="../secret")
        wrong = await failure(client, "guide_cache_file", path=5, content="x")
    assert refused["code"] == -32001
    assert (wrong["code"], wrong["validation_errors"][0]["field"]) == (-32602, "path")


async def test_roots_that_change_are_noticed(project):
    server, host = build(root=None)
    agent = Agent(project, ROOT)

    async def roots(_):
        return types.ListRootsResult(roots=[types.Root(uri="file:///home/me/project")])

    async with connected(server, agent, LEGACY, sampling=False, list_roots_callback=roots) as client:
        agent.client = client
        await agent.push("src/a.py")
        await client.session.send_notification(types.RootsListChangedNotification())
        await failure(client, "read_file", path="src/a.py")
    assert host.cache.statistics.entries == 0


def test_outside_of_a_request_there_is_no_client():
    server, host = build()

    with pytest.raises(ConfigError, match="needs a request"):
        host.bridge(Context(server))
