"""Nobody waits for what one server, one other process or one odd request keeps busy."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from types import SimpleNamespace

import pytest

from toolyard.app.tool_selection import in_context_tools
from toolyard.codemode import catalog
from toolyard.codemode.broker import BrokerRequest, RequestKind, ignore_progress
from toolyard.codemode.catalog import Catalog
from toolyard.codemode.upstream_caller import UpstreamCall, _suggest_name
from toolyard.core import debounce
from toolyard.core.calls import deny_without_asking
from toolyard.core.errors import ConfigError, SecurityError, ValidationError
from toolyard.core.upstream import ToolSchema

from .conftest import Place, tool


def call(yard, server: str = "one"):
    return yard.codemode.call(UpstreamCall(server, "t", {}, yard.agent, "test", deny_without_asking))


def evidence(yard) -> dict[str, bool]:
    with Catalog.open(yard.codemode.deps.state) as known:
        return {server.name: bool(server.evidence) for server in known.servers()}


def changes(yard, server: str) -> None:
    """The server says that its tools have changed; returns once that was heard."""
    parts = yard.codemode.connections

    async def tell() -> None:
        parts.pool._servers[server]._on_list_changed()

    parts.loop.run(tell())


SOON = 20.0
"""Longer than anything here takes on a busy machine, shorter than the catalog would be waited for."""


@pytest.fixture
def held(place: Place, monkeypatch):
    """Another process writes to the catalog, from when it is called until what it returns is."""
    monkeypatch.setattr(catalog, "_BUSY_SECONDS", 2 * SOON)
    others: list[sqlite3.Connection] = []

    def hold(yard):
        other = sqlite3.connect(
            os.path.join(yard.codemode.deps.state, "catalog.sqlite"),
            isolation_level=None,
            check_same_thread=False,
        )
        others.append(other)
        other.execute("begin immediate")
        return lambda: other.execute("rollback")

    yield hold
    for other in others:
        other.close()


def test_a_catalog_that_another_process_holds_keeps_no_call_waiting(place: Place, held, monkeypatch):
    monkeypatch.setattr(debounce, "_DELAY_SECONDS", 0.0)
    for name in ("one", "two"):
        place.server(name, tool("t"))
    place.sync()
    yard = place.open()
    call(yard, "one"), call(yard, "two")
    let_go = held(yard)
    began = time.monotonic()
    changes(yard, "one")
    call(yard, "two")
    assert time.monotonic() - began < SOON
    let_go()
    yard.close()
    assert evidence(yard) == {"one": False, "two": True}


def test_first_calls_and_what_is_learnt_from_them_wait_for_no_other_process(place: Place, held):
    for name in ("one", "two"):
        place.server(name, tool("t"))
    place.sync()
    yard = place.open()
    call(yard, "one")
    let_go = held(yard)
    began = time.monotonic()
    assert "given" in call(yard, "two").text
    assert time.monotonic() - began < SOON
    let_go()
    assert yard.codemode.catalog.tool("two", "t").inferred is None
    call(yard, "two")
    assert yard.codemode.catalog.tool("two", "t").inferred is not None


def test_a_call_whose_tool_changed_waits_for_the_other_process_and_nobody_else_does(place, held, monkeypatch):
    for name in ("one", "two"):
        place.server(name, tool("t"))
    place.sync()
    place.servers["one"].has(tool("t", "Now it says something else."))
    yard = place.open()
    call(yard, "two")
    let_go = held(yard)
    parts, record, tried = yard.codemode.connections, Catalog.record_listing, threading.Event()

    def telling(*given, **more):
        tried.set()
        return record(*given, **more)

    monkeypatch.setattr(Catalog, "record_listing", telling)
    waiting = parts.loop.submit(
        parts.upstream.call(UpstreamCall("one", "t", {}, yard.agent, "test", deny_without_asking))
    )
    assert tried.wait(50)
    began = time.monotonic()
    call(yard, "two")
    assert time.monotonic() - began < SOON
    let_go()
    with pytest.raises(SecurityError, match="has changed since it was pinned"):
        waiting.result(30)


def test_closing_does_not_wait_long_for_another_process(place: Place, held):
    for name in ("one", "two"):
        place.server(name, tool("t"))
    place.sync()
    yard = place.open()
    call(yard, "one"), call(yard, "two")
    let_go = held(yard)
    began = time.monotonic()
    yard.close()
    assert time.monotonic() - began < SOON
    let_go()


def test_a_change_that_was_told_is_noted_before_a_sync(place: Place):
    place.server("one", tool("t"))
    place.sync()
    yard = place.open()
    call(yard)
    assert evidence(yard) == {"one": True}
    changes(yard, "one")
    yard.codemode.record_stale_servers()
    assert evidence(yard) == {"one": False}


def test_a_change_that_cannot_be_noted_is_kept_for_later(place: Place, monkeypatch):
    place.server("one", tool("t"))
    place.sync()
    yard = place.open()
    call(yard)
    changes(yard, "one")

    def locked(catalog, server):
        raise sqlite3.OperationalError("database is locked")

    with monkeypatch.context() as patch:
        patch.setattr(Catalog, "mark_stale", locked)
        yard.codemode.record_stale_servers()
    yard.close()
    assert evidence(yard) == {"one": False}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"query": "x" * 10_001}, "more than 10,000 characters"),
        ({"query": "x", "search_paths": ["a"] * 51}, "more than 50"),
    ],
)
async def test_a_search_for_too_much_is_refused(place: Place, arguments, says):
    place.server("one", tool("t"))
    yard = place.open()
    answering = yard.codemode.connections.broker.handler
    with pytest.raises(ValidationError, match=says):
        await answering(BrokerRequest("a", RequestKind.SEARCH, arguments=arguments), ignore_progress)


def test_only_the_beginning_of_a_long_name_is_compared_with_others():
    # Whole, the two would be much too different to be taken for each other.
    assert _suggest_name("x" * 1_000, ["x" * 100]) == f"Did you mean {'x' * 100}?"


def test_two_tools_are_never_served_under_one_name():
    tools = {"a": [SimpleNamespace(schema=ToolSchema("b__c"))], "a__b": [SimpleNamespace(schema=ToolSchema("c"))]}
    mode = SimpleNamespace(
        resolved_servers=SimpleNamespace(entries=[SimpleNamespace(name=name) for name in tools]),
        catalog=SimpleNamespace(tools=tools.__getitem__),
    )
    with pytest.raises(ConfigError, match='"b__c" of "a" and "c" of "a__b", which would both be served as "a__b__c"'):
        in_context_tools({"a": "*", "a__b": "*"}, mode)
    assert list(in_context_tools({"a": ("b__c", "b__c")}, mode)) == ["search_tools", "a__b__c"]
