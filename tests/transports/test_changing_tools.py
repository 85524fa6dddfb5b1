"""Upstream tools in a client's own list come and go while its session runs, and the client is told."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ran_with
from tests.support import growing_server
from tests.transports.test_subscriptions import over_http
from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.loader import load_config
from toolyard.config.settings import Settings
from toolyard.testing.mcp_client import StdioClient, error_in, expect_result

CHANGED = "notifications/tools/list_changed"


class Place:
    def __init__(self, base: Path) -> None:
        (base / "ws").mkdir()
        self.file = base / "toolyard.yaml"
        self._where = ("--config", str(self.file), "--state", str(base / "state"))

    def entry(self, *tools: str, **more: Any) -> dict[str, Any]:
        return {"command": sys.executable, "args": [growing_server.__file__, *tools], **more}

    def configure(self, **servers: dict[str, Any]) -> None:
        section = {
            "workspace": "ws",
            "available_mcp_servers": servers,
            "in_context_tools": {"code_execution": "*", **dict.fromkeys(servers, "*")},
        }
        document = {"toolyard": section, "permissions": {"mode": "bypassPermissions"}}
        self.file.write_text(json.dumps(document))

    def sync(self) -> None:
        ran_with(["sync", *self._where], code=0)

    def client(self, *, modern: bool) -> Listening:
        command = [sys.executable, "-m", "toolyard", "mcp", "--tools", "code", *self._where]
        return Listening(command, modern=modern)


def opened(place: Place, base: Path) -> Yard:
    options = YardOptions(
        str(base / "ws"),
        load_config(str(place.file)),
        settings=Settings.from_environment({"HOME": str(base)}),
        toolset=Toolset.CODE,
        state_home=str(base / "state"),
    )
    return Yard.open(options)


class Listening(StdioClient):
    def until_told(self) -> None:
        """Wait for the next notification that the list of tools has changed."""
        while CHANGED not in [note["method"] for note in self.notifications]:
            self.notifications.append(self.receive())
        self.notifications.clear()

    def upstream_tools(self) -> set[str]:
        listed = self.request("tools/list")["result"]["tools"]
        return {tool["name"] for tool in listed if "__" in tool["name"]}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    made = Place(tmp_path.resolve())
    made.configure(one=made.entry("a"))
    made.sync()
    return made


@pytest.fixture(params=["without the SDK", "with the SDK", "later era"])
def client(place: Place, request: pytest.FixtureRequest) -> Iterator[Listening]:
    """A session in which the client has listed its tools, and listens where its era wants that."""
    with place.client(modern=request.param == "later era") as client:
        if request.param == "later era":
            client.send_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            client.receive()  # that it is listened to
        elif request.param == "with the SDK":
            client.request("no/such/method")
        assert client.upstream_tools() == {"one__a"}
        yield client


def test_a_server_that_is_added_and_synced_is_listed_and_can_be_called(place: Place, client: Listening) -> None:
    place.configure(one=place.entry("a"), two=place.entry("b"))
    place.sync()
    client.until_told()
    assert client.upstream_tools() == {"one__a", "two__b"}
    assert expect_result(client.call("two__b"))["content"][0]["text"] == "answer of b"
    assert expect_result(client.call("one__a"))["content"][0]["text"] == "answer of a"


def test_an_added_server_that_was_not_synced_is_not_listed(place: Place, client: Listening) -> None:
    place.configure(one=place.entry("a"), two=place.entry("b"))
    place.sync()
    client.until_told()
    place.configure(one=place.entry("a"))
    client.until_told()
    # Tools of that name are known, but of another command. The other server goes: the file was read.
    place.configure(two=place.entry("c"))
    client.until_told()
    assert client.upstream_tools() == set()


def test_a_removed_server_is_gone_from_the_list_and_from_code(place: Place, client: Listening) -> None:
    assert expect_result(client.call("one__a"))
    place.configure()
    client.until_told()
    assert client.upstream_tools() == set()
    refused = error_in(client.call("one__a"))
    assert refused is not None
    assert "no tool called 'one__a'" in refused["message"]
    code = "from toolyard_runtime import call_mcp_tool\nprint(await call_mcp_tool('one', 'a', {}))"
    assert "there is no server 'one'" in json.dumps(client.call("execute_python", code=code))


def test_a_changed_entry_counts_once_it_is_synced(place: Place, client: Listening) -> None:
    assert expect_result(client.call("one__a"))
    place.configure(one=place.entry("c"))
    assert expect_result(client.call("one__a"))["content"][0]["text"] == "answer of a"
    place.sync()
    client.until_told()
    assert client.upstream_tools() == {"one__c"}
    assert expect_result(client.call("one__c"))["content"][0]["text"] == "answer of c"


def test_a_trusted_server_that_says_its_tools_changed_changes_the_list(place: Place) -> None:
    place.configure(grows=place.entry("grow", pinned=False))
    place.sync()
    with place.client(modern=False) as client:
        assert client.initialize_response["result"]["capabilities"]["tools"] == {"listChanged": True}
        assert client.upstream_tools() == {"grows__grow"}
        assert expect_result(client.call("grows__grow"))
        client.until_told()
        assert client.upstream_tools() == {"grows__grow", "grows__fresh"}
        assert expect_result(client.call("grows__fresh"))["content"][0]["text"] == "answer of fresh"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_of_the_sdk_is_told_at_the_start_that_tools_may_change(
    place: Place, tmp_path: Path, mode: str
) -> None:
    with opened(place, tmp_path) as yard:
        async with over_http(yard, mode) as client:
            assert client.server_capabilities.tools is not None
            assert client.server_capabilities.tools.list_changed is True


async def test_a_client_of_the_sdk_is_told_over_http(place: Place, tmp_path: Path) -> None:
    with opened(place, tmp_path) as yard:
        async with over_http(yard, "auto") as client, client.listen(tools_list_changed=True) as changes:
            before = {tool.name for tool in (await client.list_tools()).tools}
            place.configure(one=place.entry("a"), two=place.entry("b"))
            await asyncio.to_thread(place.sync)
            await anext(aiter(changes))
            after = {tool.name for tool in (await client.list_tools()).tools}
    assert after - before == {"two__b"}
