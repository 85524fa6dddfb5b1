"""Remote servers: streamable HTTP, the older SSE, headers, signing in."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import os
import socket
import stat
import threading
import urllib.request
from urllib.parse import parse_qs, urlsplit

import pytest

from toolyard.config.models import ServerEntry
from toolyard.mcp_client import CallFailed, CallTimedOut, ServerUnavailable

from .remotes import remote_process, remote_server
from .upstreams import until

KEY = "k-very-secret-2207"
LONG = 30.0
TRANSPORTS = {"streamable-http": "2026-07-28", "sse": "2025-11-25"}


def entry(url: str, **more) -> ServerEntry:
    return ServerEntry(name="far", url=url, **more)


def echo(pool, **options):
    return pool.loop.run(pool.call("far", "echo", {"text": "hi"}, **options)).text


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_remote_server_is_reached_listed_and_called(open_pool, transport):
    with remote_server(transport) as remote:
        pool = open_pool(entry(remote.url))
        assert pool.status()["far"].transport == transport
        listing = pool.loop.run(pool.server_listing("far"))
        assert (listing.protocol, listing.version) == (TRANSPORTS[transport], "4.5.6")
        assert listing.instructions == "From afar."
        assert {tool.name for tool in listing.tools} == {"echo", "weather", "wait", "strange", "fail"}
        answer = pool.loop.run(pool.call("far", "weather", {"city": "Oslo"}))
        assert answer.structured == {"city": "Oslo", "wind": None}
        assert pool.loop.run(pool.call("far", "fail", {})).is_error
        pool.close()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_calls_share_the_connection_and_report_progress(open_pool, transport):
    told = []

    async def scene():
        slow = pool.call("far", "wait", {"seconds": 0.3}, progress=lambda *step: told.append(step))
        quick = [pool.call("far", "echo", {"text": str(n)}) for n in range(30)]
        return [answer.text for answer in await asyncio.gather(slow, *quick)]

    with remote_server(transport) as remote:
        pool = open_pool(entry(remote.url))
        assert pool.loop.run(scene()) == ["waited", *map(str, range(30))]
        assert told == [(1, 2, "half"), (2, 2, "done")]
        assert pool.status()["far"].starts == 1
        pool.close()


def test_time_outs_and_refusals_are_those_of_any_server(open_pool):
    with remote_server() as remote:
        pool = open_pool(entry(remote.url, timeout=0.3))
        echo(pool, timeout=LONG)
        with pytest.raises(CallTimedOut, match=r"'far' did not answer wait within 0\.3 s"):
            pool.loop.run(pool.call("far", "wait", {"seconds": LONG}))
        unknown = pool.loop.run(pool.call("far", "nothing", {}, LONG))  # this server's way of saying so
        assert unknown.is_error
        with pytest.raises(CallFailed, match="refused strange"):
            pool.loop.run(pool.call("far", "strange", {}, LONG))
        assert echo(pool, timeout=LONG) == "hi"
        assert pool.status()["far"].starts == 1
        pool.close()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_headers_are_sent_with_every_request_and_never_said(open_pool, caplog, transport):
    caplog.set_level(logging.DEBUG, "toolyard")
    with remote_server(transport, key=KEY) as remote:
        pool = open_pool(entry(remote.url, headers={"X-Key": "${THE_KEY}"}), host_env={"THE_KEY": KEY})
        assert echo(pool) == "hi"
        assert {headers["x-key"] for headers in remote.requests} == {KEY}
        pool.close()
        refused = open_pool(entry(remote.url, headers={"X-Key": f"wrong-{KEY}"}))
        with pytest.raises(ServerUnavailable, match=r"requires authentication \(HTTP 401\)") as told:
            echo(refused)
        assert "headers" in told.value.hint
        assert KEY not in f"{told.value} {refused.status()} {caplog.text}"
        refused.close()


@pytest.mark.usefixtures("clock")
def test_a_server_that_is_not_there_is_an_error_at_once_and_later_again(open_pool):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pool = open_pool(entry(f"http://127.0.0.1:{port}/mcp?key={KEY}"))
    with pytest.raises(ServerUnavailable, match=r"'far' at 127\.0\.0\.1 cannot be reached") as told:
        echo(pool)
    assert KEY not in str(told.value)
    with pytest.raises(ServerUnavailable, match="is not retried for"):
        echo(pool)


def test_a_server_that_accepts_and_never_answers_is_given_up(open_pool):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        pool = open_pool(entry(f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"), start_seconds=0.5)
        with pytest.raises(ServerUnavailable, match=r"did not answer within 0\.5 s"):
            echo(pool)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_server_that_goes_away_fails_its_calls_and_is_found_again(open_pool, transport):
    with remote_process(transport) as url:
        pool = open_pool(entry(url))
        assert echo(pool) == "hi"
        told = threading.Event()
        call = pool.loop.submit(pool.call("far", "wait", {"seconds": 100}, 90, lambda *_: told.set()))
        assert told.wait(LONG)
    with pytest.raises(ServerUnavailable):
        call.result(LONG)
    with remote_process(transport, urlsplit(url).port):
        until(lambda: _answers(pool))
        pool.close()


def _answers(pool) -> bool:
    try:
        return echo(pool) == "hi"
    except ServerUnavailable:
        return False


class Browser:
    """A user who signs in as soon as an address is shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.pages: list[bytes] = []
        self._threads: list[threading.Thread] = []

    def __call__(self, server: str, url: str) -> None:
        assert server == "far"
        self.shown.append(url)
        self._threads.append(threading.Thread(target=self._visit, args=(url,)))
        self._threads[-1].start()

    def _visit(self, url: str) -> None:
        back = parse_qs(urlsplit(url).query)["redirect_uri"][0]
        # Somebody else on this machine who finds the port, but does not know what was asked, is not believed.
        with pytest.raises(http.client.RemoteDisconnected):
            urllib.request.urlopen(f"{back}?code=mine&state=guessed", timeout=5)
        with urllib.request.urlopen(url, timeout=10) as page:
            self.pages.append(page.read())

    def join(self) -> None:
        for thread in self._threads:
            thread.join(10)


def test_signing_in_is_done_once_and_kept_in_a_file_of_the_users_own(open_pool, tmp_path):
    folder, browser = tmp_path / "tokens", Browser()
    with remote_server(oauth=True) as remote:
        first = open_pool(entry(remote.url), tokens_folder=str(folder), on_authorize=browser)
        assert echo(first) == "hi"
        browser.join()
        first.close()
        assert len(browser.shown) == 1
        assert b"You can close this page" in browser.pages[0]
        (kept,) = folder.iterdir()
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        token = json.loads(kept.read_text())["tokens"]["access_token"]
        assert token not in f"{first.status()}"
        # Another process has nobody to ask and does not need to.
        second = open_pool(entry(remote.url), tokens_folder=str(folder))
        assert echo(second) == "hi"
        assert remote.authority.sign_ins == 1
        second.close()


def sign_in(open_pool, remote, folder) -> None:
    browser = Browser()
    pool = open_pool(entry(remote.url), tokens_folder=str(folder), on_authorize=browser)
    echo(pool)
    browser.join()
    pool.close()


def test_an_old_sign_in_is_renewed_without_the_user(open_pool, tmp_path):
    folder = tmp_path / "tokens"
    with remote_server(oauth=True) as remote:
        sign_in(open_pool, remote, folder)
        (kept,) = folder.iterdir()
        state = json.loads(kept.read_text())
        kept.write_text(json.dumps({**state, "ends": 1.0}))
        remote.authority.access.clear()
        second = open_pool(entry(remote.url), tokens_folder=str(folder))
        assert echo(second) == "hi"
        assert (remote.authority.sign_ins, remote.authority.refreshes) == (1, 1)
        second.close()
        assert json.loads(kept.read_text())["tokens"] != state["tokens"]
        assert len(os.listdir(folder)) == 1


@pytest.mark.parametrize("at_a_terminal", [True, False])
def test_a_server_that_offers_no_sign_in_is_said_to_need_its_key(open_pool, tmp_path, at_a_terminal):
    shown: list[str] = []
    more = {"on_authorize": lambda _, url: shown.append(url)} if at_a_terminal else {}
    with remote_server(key=KEY) as remote:
        pool = open_pool(entry(remote.url), tokens_folder=str(tmp_path), **more)
        with pytest.raises(ServerUnavailable, match=r"requires authentication \(HTTP 401\)") as told:
            echo(pool)
        assert "offers no sign-in: set its key in the `headers` of its entry." in told.value.hint
        assert ("in a terminal" in told.value.hint) is not at_a_terminal
        assert shown == []
        pool.close()
        wrong = open_pool(entry(remote.url, headers={"Authorization": "Bearer wrong"}), **more)
        with pytest.raises(ServerUnavailable) as told:
            echo(wrong)
        assert told.value.hint == "Check `Authorization` in the `headers` of its entry."
        wrong.close()


def test_where_nobody_can_be_asked_a_wanted_sign_in_is_a_clear_error(open_pool, tmp_path):
    with remote_server(oauth=True) as remote:
        pool = open_pool(entry(remote.url), tokens_folder=str(tmp_path))
        with pytest.raises(ServerUnavailable, match="requires authentication") as told:
            echo(pool)
        assert "sign in with `toolyard sync` in a terminal" in told.value.hint
        assert not told.value.retryable
        assert remote.authority.clients == {}
        pool.close()


def test_a_sign_in_that_ended_and_cannot_be_renewed_is_a_clear_error_where_nobody_can_be_asked(open_pool, tmp_path):
    folder = tmp_path / "tokens"
    with remote_server(oauth=True) as remote:
        sign_in(open_pool, remote, folder)
        remote.authority.access.clear()
        remote.authority.refresh.clear()
        second = open_pool(entry(remote.url), tokens_folder=str(folder))
        with pytest.raises(ServerUnavailable, match="requires you to sign in again"):
            echo(second)
        second.close()
