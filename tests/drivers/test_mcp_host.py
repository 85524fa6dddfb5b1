"""One server for many runs: each token opens its own workspace, and proves its own run attached."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
from urllib.parse import urlsplit

import pytest

from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.drivers.mcp_host import Host
from toolyard.testing.mcp_client import expect_result
from toolyard.testing.mcp_http_client import HttpClient
from toolyard.transports.client_profile import ClientProfile
from toolyard.transports.mcp import token_router

SECONDS = 20
TWO = ("one", "two")


@pytest.fixture
def hosted(tmp_path, monkeypatch):
    """Have something done while two runs stay at one host: `hosted(work)`, and `work(one, two)` in a thread."""
    monkeypatch.setattr(Yard, "warm_up", lambda _: None)

    async def staying(work):
        with Host() as host:
            async with contextlib.AsyncExitStack() as stack:
                stays = []
                for name in TWO:
                    (tmp_path / name).mkdir()
                    (tmp_path / name / "a.txt").write_text(f"of {name}\n")
                    options = YardOptions(str(tmp_path / name), Config(), state_home=str(tmp_path / "state"))
                    stays.append(await stack.enter_async_context(host.lease(options, lambda _: ClientProfile())))
                await asyncio.to_thread(work, *stays)

    return lambda work: asyncio.run(asyncio.wait_for(staying(work), SECONDS))


def listed(stay, **client) -> None:
    with HttpClient(stay.url, stay.token, **client) as mcp:
        assert mcp.request("tools/list")["result"]["tools"]


@pytest.mark.parametrize("modern", [False, True])
def test_a_run_is_attached_by_its_own_list_and_no_other(hosted, modern):
    def work(one, two):
        listed(one, modern=modern)
        assert one.attached.wait(SECONDS)
        listed(one, modern=modern)
        assert not two.attached.is_set()
        listed(two, modern=modern)
        assert two.attached.wait(SECONDS)

    hosted(work)


def test_whatever_else_is_asked_or_fails_attaches_nobody(hosted):
    def work(one, _two):
        with HttpClient(one.url, one.token) as mcp:
            assert "result" in mcp.initialize_response
            assert "result" in mcp.request("ping")
            assert expect_result(mcp.call("Read", file_path="a.txt"))
            assert "error" in mcp.request("tools/list", {"cursor": {}})
            assert mcp.send_bytes(b'{"jsonrpc": "2.0", "id": 9, "method": "tools/list", "par')[0] >= 400
        assert not one.attached.is_set()

    hosted(work)


def test_a_token_that_was_given_to_nobody_opens_nothing(hosted):
    def work(one, two):
        for wrong in ("", "another-token", one.token[:-1], one.token + two.token, one.token.swapcase()):
            mcp = HttpClient(one.url, wrong, modern=True)
            assert mcp.send_bytes(b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}')[0] == 401
        assert not one.attached.is_set()
        assert not two.attached.is_set()

    hosted(work)


def test_each_token_is_fresh_and_opens_its_own_workspace(hosted):
    def work(*stays):
        assert len({stay.token for stay in stays}) == len(TWO)
        assert min(len(stay.token) for stay in stays) >= 43
        for stay, name in zip(stays, TWO, strict=True):
            with HttpClient(stay.url, stay.token) as mcp:
                assert f"of {name}" in str(mcp.call("Read", file_path="a.txt")["result"])

    hosted(work)


def test_it_listens_on_the_loopback_alone_and_at_a_free_port():
    with Host() as one, Host() as two:
        first, second = (urlsplit(host.url) for host in (one, two))
        assert (first.hostname, second.hostname) == ("127.0.0.1", "127.0.0.1")
        assert first.port != second.port
        with pytest.raises(OSError):  # any other address of this machine, such as this one
            socket.create_connection(("127.0.0.2", first.port), SECONDS).close()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", first.port), SECONDS).close()


def test_a_run_that_cannot_be_served_is_told_once_and_no_future_is_left_unheard(tmp_path, monkeypatch):
    unheard = []

    def no_app(*_):
        raise AttributeError("no server can be made of this")

    monkeypatch.setattr(token_router, "yard_app", no_app)

    async def staying():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context["message"]))
        with Host() as host:
            options = YardOptions(str(tmp_path), Config(), state_home=str(tmp_path.parent / "state"))
            with pytest.raises(AttributeError):
                async with host.lease(options, lambda _: ClientProfile()):
                    pass
        gc.collect()

    asyncio.run(asyncio.wait_for(staying(), SECONDS))
    assert unheard == []
