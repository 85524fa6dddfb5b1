"""Conversations over HTTP: both eras, sessions of their own, and the end of the server."""

from __future__ import annotations

import http.client
import json
import signal
import threading
import time

import pytest

from toolyard.core.events import CallOutcome
from toolyard.testing.mcp_client import expect_error, expect_result
from toolyard.transports.mcp.server import session_name

CANCEL_SECONDS = 1.0  # a twentieth of it on an idle machine
STOP_SECONDS = 3.0  # one of them is the grace that calls under way are given
OK, ACCEPTED, BAD, GONE, NOT_ALLOWED = 200, 202, 400, 404, 405


def test_tools_are_listed_and_called_in_both_eras(place, talk, modern):
    place.write("a.txt", "one\n")
    with place.http() as server:
        session = talk(server, modern=modern)
        tools = session.send("tools/list").message["result"]["tools"]
        shown = session.call("Read", file_path="a.txt")["result"]["content"]
        refused = expect_error(session.call("Read", file_path="../secret"))["code"]
    assert [tool["name"] for tool in tools][:3] == ["Read", "Write", "Edit"]
    assert shown == [{"type": "text", "text": "     1\tone"}]
    assert refused == -32001
    assert [(event.surface, event.tool, event.outcome) for event in place.events()] == [
        ("mcp-http", "Read", CallOutcome.OK),
        ("mcp-http", "Read", CallOutcome.DENIED),
    ]


def test_an_unknown_method_is_refused(door, talk, modern):
    assert talk(door, modern=modern).send("no/such/method").message["error"]["code"] == -32601


def test_resources_are_listed_and_read(place, talk, modern):
    path = place.write("a b.txt", "one\n")
    uri = "file://" + path.replace(" ", "%20")
    with place.http() as server:
        session = talk(server, modern=modern)
        listed = session.send("resources/list").message["result"]["resources"]
        contents = session.send("resources/read", {"uri": uri}).message["result"]["contents"]
    assert listed == [{"uri": uri, "name": "a b.txt", "mimeType": "text/plain"}]
    assert contents == [{"uri": uri, "text": "one\n", "mimeType": "text/plain"}]


def test_what_one_session_has_read_another_has_not(place, talk):
    place.write("a.txt", "one\n")
    with place.http() as server:
        first, second = talk(server), talk(server)
        assert first.session != second.session
        first.call("Read", file_path="a.txt")
        second.call("Read", file_path="a.txt")
        assert expect_result(first.call("Write", file_path="a.txt", content="by the first\n"))
        refused = second.call("Write", file_path="a.txt", content="by the second\n")
    assert expect_error(refused)["code"] == -32603
    assert place.read("a.txt") == "by the first\n"
    names = [session_name(each.session) for each in (first, second)]
    assert [event.session for event in place.events()] == [*names, *names]


def test_a_deleted_session_is_gone_and_the_others_are_not(door, talk):
    first, second = talk(door), talk(door)
    assert door.raw("DELETE", [*door.usual(), *first.headers()]).status == OK
    assert first.send("tools/list").status == GONE
    assert second.send("tools/list").status == OK


def test_a_session_nobody_opened_is_not_found(door, talk):
    session = talk(door)
    session.session = "0" * 32
    assert session.send("tools/list").status == GONE
    assert door.raw("GET", [*door.usual(), *session.headers()]).status == GONE


def test_a_request_without_a_session_is_refused(door):
    assert door.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).status == BAD


def test_a_client_may_listen_on_its_session(door, talk):
    session = talk(door)
    connection = http.client.HTTPConnection(door.host, door.port, timeout=10)
    connection.request("GET", "/mcp", headers=dict([*door.usual(), *session.headers()]))
    response = connection.getresponse()
    assert (response.status, response.getheader("content-type")) == (OK, "text/event-stream")
    response.close()
    connection.close()
    assert expect_result(session.call("LS"))


def test_the_stateless_protocol_has_no_sessions_to_listen_on_or_to_delete(door, talk):
    session = talk(door, modern=True)
    for method in ("GET", "DELETE"):
        assert door.raw(method, [*door.usual(), *session.headers()]).status == NOT_ALLOWED
    assert "mcp-session-id" not in session.send("tools/list").headers


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"jsonrpc":"1.0","id":1,"method":"ping"}'])
def test_a_body_that_is_no_message_is_refused_and_the_server_goes_on(door, talk, body):
    assert door.raw("POST", door.usual(), body).status == BAD
    assert expect_result(talk(door).call("LS"))


def test_a_call_that_takes_long_reports_progress_on_its_own_stream(place, talk, modern):
    config = place.write("../limits.yaml", "limits: {call_seconds: 1.5}\n")
    arguments = place.endless()
    with place.http("--config", config) as server:
        session = talk(server, modern=modern)
        params = {"name": "Grep", "arguments": arguments, "_meta": {"progressToken": "mine"}}
        told, *_, ended = session.send("tools/call", params).messages
    assert (told["method"], told["params"]["progressToken"]) == ("notifications/progress", "mine")
    assert expect_error(ended)["code"] == -32603


def test_a_cancelled_call_is_stopped_and_recorded_once(place, talk, wait_until, children):
    with place.http() as server:
        session = talk(server)
        params = {"name": "Grep", "arguments": place.endless()}
        waiting = threading.Thread(target=session.send, args=("tools/call", params), daemon=True)
        waiting.start()
        wait_until(lambda: "rg" in children(server.process.pid))
        cancel = {"method": "notifications/cancelled", "params": {"requestId": session._last}}
        assert server.post({"jsonrpc": "2.0", **cancel}, *session.headers()).status == ACCEPTED
        wait_until(lambda: "rg" not in children(server.process.pid), CANCEL_SECONDS)
        assert expect_result(talk(server).call("LS"))
    assert [(event.tool, event.outcome) for event in place.events()] == [
        ("Grep", CallOutcome.CANCELLED),
        ("LS", CallOutcome.OK),
    ]


def test_in_the_stateless_protocol_a_client_cancels_by_hanging_up(place, talk, wait_until, children):
    arguments = place.endless()
    with place.http() as server:
        session = talk(server, modern=True)
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {
                "name": "Grep",
                "arguments": arguments,
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
            },
        }
        connection = http.client.HTTPConnection(server.host, server.port, timeout=10)
        headers = dict([*server.usual(), *session.headers("tools/call", {"name": "Grep"})])
        connection.request("POST", "/mcp", json.dumps(message), headers)
        wait_until(lambda: "rg" in children(server.process.pid))
        connection.close()
        wait_until(lambda: "rg" not in children(server.process.pid), CANCEL_SECONDS)
        wait_until(place.events)
    assert [(event.tool, event.outcome) for event in place.events()] == [("Grep", CallOutcome.CANCELLED)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_ends_the_server_in_time_with_calls_under_way_recorded(place, talk, number, wait_until, children):
    with place.http() as server:
        session = talk(server)
        params = {"name": "Grep", "arguments": place.endless()}
        waiting = threading.Thread(target=_quietly, args=(session, params), daemon=True)
        waiting.start()
        wait_until(lambda: "rg" in children(server.process.pid))
        started = time.monotonic()
        assert server.stop(number) == 0
        assert time.monotonic() - started < STOP_SECONDS
        waiting.join(STOP_SECONDS)
    assert "Traceback" not in "".join(server.said)
    assert [(event.tool, event.outcome) for event in place.events()] == [("Grep", CallOutcome.CANCELLED)]


def _quietly(session, params):
    try:
        session.send("tools/call", params)
    except (http.client.HTTPException, OSError):
        return


def test_an_idle_server_with_a_listening_client_ends_in_time(place, talk):
    with place.http() as server:
        session = talk(server)
        connection = http.client.HTTPConnection(server.host, server.port, timeout=10)
        connection.request("GET", "/mcp", headers=dict([*server.usual(), *session.headers()]))
        response = connection.getresponse()
        started = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - started < STOP_SECONDS
        response.close()
        connection.close()
    assert "Traceback" not in "".join(server.said)
