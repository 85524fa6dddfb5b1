"""What is particular to threads in Redis: its keys, holds that are renewed and lost, dead servers, the password."""

from __future__ import annotations

import logging
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.redis_server import RedisServer
from tests.support.thread_store_suite.kit import LONG, eventually, nobody_waits, refused, texts, turn
from toolyard.assistant.threads.redis_client import RedisClient
from toolyard.assistant.threads.redis_store import RedisThreads
from toolyard.assistant.threads.store import ExpiredThread, ThreadLimits
from toolyard.core.errors import ConfigError, SystemFault, ToolyardError

PASSWORD = "pa55word-of-redis"
LEASE_SECONDS = 0.8
DEAD_SECONDS = 5.0
DAY = 86_400.0


class Raw:
    """The server's own view."""

    def __init__(self, url: str, namespace: str) -> None:
        self._link = RedisClient(url)
        self._prefix = f"toolyard:{namespace}:"

    def ask(self, command: str, name: str, *words: str) -> Any:
        return self._link.run_commands((command, f"{self._prefix}{name}", *words))[0]

    def keys(self) -> set[str]:
        (found,) = self._link.run_commands(("KEYS", f"{self._prefix}*"))
        return {key.decode().removeprefix(self._prefix) for key in found}


@pytest.fixture
def raw(redis_server: RedisServer, namespace: str) -> Raw:
    return Raw(redis_server.url, namespace)


@pytest.fixture
def store(redis_server: RedisServer, namespace: str) -> Iterator[RedisThreads]:
    with RedisThreads(RedisClient(redis_server.url), namespace, ThreadLimits(30 * DAY, 100)) as store:
        yield store


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    with RedisServer(PASSWORD) as server:
        yield server


def begun(store: RedisThreads, text: str = "first") -> str:
    with store.turn(None, nobody_waits) as opened:
        opened.keep(turn(text))
    return opened.thread.id


def test_every_key_says_whose_it_is_and_goes_by_itself(store: RedisThreads, raw: Raw) -> None:
    thread = begun(store)
    text = {f"thread:{thread}", f"turns:{thread}", "threads"}
    assert raw.keys() == text | {f"gone:{thread}"}
    assert all(30 * DAY < raw.ask("PTTL", key) / 1_000 < 31 * DAY for key in text)
    assert 395 * DAY < raw.ask("PTTL", f"gone:{thread}") / 1_000 < 397 * DAY
    with store.turn(thread, nobody_waits):
        assert raw.keys() == text | {f"gone:{thread}", f"hold:{thread}"}
    assert raw.keys() == text | {f"gone:{thread}"}


def test_every_turn_renews_how_long_a_thread_lasts(store: RedisThreads, raw: Raw) -> None:
    thread = begun(store)
    for key in (f"thread:{thread}", f"turns:{thread}", "threads"):
        raw.ask("PEXPIRE", key, "60000")
    with store.turn(thread, nobody_waits) as opened:
        opened.keep(turn("second"))
    assert all(raw.ask("PTTL", f"{kind}:{thread}") / 1_000 > 30 * DAY for kind in ("thread", "turns"))
    assert raw.ask("PTTL", "threads") / 1_000 > 30 * DAY


def test_a_thread_whose_text_redis_has_let_go_has_expired(store: RedisThreads, raw: Raw) -> None:
    thread, other = begun(store), begun(store)
    for kind in ("thread", "turns"):
        raw.ask("PEXPIRE", f"{kind}:{thread}", "1")
    eventually(lambda: f"turns:{thread}" not in raw.keys())  # noqa: SIM118 - it is no dictionary
    assert isinstance(refused(lambda: store.read(thread)), ExpiredThread)
    assert [each.id for each in store.list()] == [other]


def test_namespaces_keep_to_themselves(store: RedisThreads, redis_server: RedisServer) -> None:
    thread = begun(store)
    with RedisThreads(RedisClient(redis_server.url), "another", LONG) as other:
        assert other.list() == ()
        assert refused(lambda: other.read(thread)).data()["reason"] == "unknown_thread"


def test_a_hold_is_renewed_for_as_long_as_the_turn_takes(
    store: RedisThreads, raw: Raw, redis_server: RedisServer, namespace: str
) -> None:
    thread = begun(store)
    hasty = RedisThreads(RedisClient(redis_server.url), namespace, LONG, LEASE_SECONDS)
    with hasty, hasty.turn(thread, nobody_waits) as opened:
        until = time.monotonic() + 2 * LEASE_SECONDS
        eventually(lambda: time.monotonic() > until)
        assert raw.ask("EXISTS", f"hold:{thread}") == 1
        assert opened.keep(turn("second")) == 2
    assert raw.ask("EXISTS", f"hold:{thread}") == 0


def test_who_lost_the_hold_keeps_nothing_and_takes_it_from_nobody(store: RedisThreads, raw: Raw) -> None:
    thread = begun(store)
    with store.turn(thread, nobody_waits) as opened:
        raw.ask("SET", f"hold:{thread}", "somebody else")
        error = refused(lambda: opened.keep(turn("late")))
    assert isinstance(error, SystemFault)
    assert error.retryable
    assert raw.ask("GET", f"hold:{thread}") == b"somebody else"
    assert texts(store.read(thread)) == ["first"]


def test_who_was_stopped_while_another_took_a_turn_keeps_nothing(store: RedisThreads, raw: Raw) -> None:
    thread = begun(store)
    with store.turn(thread, nobody_waits) as opened:
        raw.ask("DEL", f"hold:{thread}")
        with store.turn(thread, nobody_waits) as other:
            other.keep(turn("meanwhile"))
        with pytest.raises(SystemFault, match="Another call continued"):
            opened.keep(turn("late"))
    assert texts(store.read(thread)) == ["first", "meanwhile"]


def test_a_hold_that_lapsed_and_that_nobody_took_loses_no_answer(store: RedisThreads, raw: Raw) -> None:
    thread = begun(store)
    with store.turn(thread, nobody_waits) as opened:
        raw.ask("DEL", f"hold:{thread}")
        assert opened.keep(turn("second")) == 2


def test_what_others_write_into_our_keys_is_a_fault(store: RedisThreads, raw: Raw) -> None:
    thread = begun(store)
    raw.ask("LSET", f"turns:{thread}", "0", "what is this")
    with pytest.raises(SystemFault, match="is damaged"):
        store.read(thread)
    raw.ask("DEL", f"turns:{thread}")
    raw.ask("SET", f"turns:{thread}", "a string")
    with pytest.raises(SystemFault, match="refused: WRONGTYPE"):
        store.read(thread)


def test_a_server_that_was_started_again_is_found_again(own_server: RedisServer) -> None:
    with RedisThreads(RedisClient(own_server.url), "ns", LONG) as store:
        begun(store)
        own_server.stop()
        own_server.start()
        assert store.list() == ()  # it kept nothing, as this one is told to
        assert [each.id for each in store.list()] == []
        thread = begun(store)
        assert texts(store.read(thread)) == ["first"]


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def every_use(store: RedisThreads) -> list[Callable[[], object]]:
    return [lambda: begun(store), lambda: store.read("0" * 32), store.list, lambda: store.search("words")]


def seconds_to_fail(work: Callable[[], object]) -> tuple[float, ToolyardError]:
    began = time.monotonic()
    error = refused(work)
    return time.monotonic() - began, error


def test_a_dead_server_is_a_fault_at_once_that_says_where(own_server: RedisServer) -> None:
    own_server.stop()
    for url, place in (
        (own_server.url, own_server.socket),
        (f"redis://:{PASSWORD}@127.0.0.1:{closed_port()}/3", "127.0.0.1:"),
    ):
        with RedisThreads(RedisClient(url), "ns", LONG) as store:
            for work in every_use(store):
                seconds, error = seconds_to_fail(work)
                assert seconds < DEAD_SECONDS
                assert isinstance(error, SystemFault)
                assert (error.code, error.retryable) == (-32000, True)
                assert f"Redis at {place}" in error.message
                assert "assistant.storage" in error.hint


def test_a_server_that_hangs_is_a_fault_in_bounded_time(own_server: RedisServer) -> None:
    with RedisThreads(RedisClient(own_server.url), "ns", LONG) as store:
        begun(store)
        own_server.freeze()
        seconds, error = seconds_to_fail(store.list)
        assert seconds < DEAD_SECONDS
        assert isinstance(error, SystemFault)
        assert "does not answer" in error.message


def everything_said(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + str(getattr(error, "data", dict)())


@pytest.mark.parametrize(
    "url",
    [
        "redis://:{password}@127.0.0.1:{port}/0",
        "redis://user:{password}@127.0.0.1:{port}/0",
        "redis://127.0.0.1:{port}/0?password={password}",
        "redis://:{password}@127.0.0.1:no-port/0",
        "redis://:{password}#@127.0.0.1:6379/0",
        "redis://:{password}/@127.0.0.1:6379/0",
        "redis://:{password}@127.0.0.1:{port}/0?nonsense={password}",
        "redis://:{password}@127.0.0.1:{port}/0?socket_timeout={password}",
        "unix://:{password}@/nowhere/redis.sock",
        "rediss://[{password}",
        "redis://",
    ],
)
def test_the_password_is_in_no_error_and_no_log(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    spelled = url.format(password=PASSWORD, port=closed_port())

    def use() -> None:
        link = RedisClient(spelled)
        assert PASSWORD not in repr(link)
        with RedisThreads(link, "ns", LONG) as store:
            assert PASSWORD not in repr(store)
            store.list()

    error = refused(use)
    assert isinstance(error, SystemFault | ConfigError)
    assert PASSWORD not in everything_said(error)
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize("password", ["", "wrong-" + PASSWORD])
def test_a_server_that_does_not_let_us_in_is_told_without_the_password(
    own_server: RedisServer, password: str
) -> None:
    secret = f":{password}@" if password else ""
    with RedisThreads(RedisClient(f"unix://{secret}{own_server.socket}"), "ns", LONG) as store:
        error = refused(store.list)
    assert isinstance(error, SystemFault)
    assert PASSWORD not in everything_said(error)
    assert error.hint == "Check the name and the password in `assistant.storage`."
