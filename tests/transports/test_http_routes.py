"""The plain HTTP door of `toolyard mcp --http`, as a program that knows no MCP meets it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket

import pytest

from toolyard.transports.output_schema import schema_admitting_errors

WAYS = {"/tools": "GET", "/execute": "POST", "/openapi.json": "GET", "/docs": "GET"}
BAD, UNAUTHORIZED, FORBIDDEN, UNKNOWN, NOT_ALLOWED, TOO_LARGE, WRONG_TYPE, MISDIRECTED = (
    *(400, 401, 403, 404, 405, 413, 415),
    421,
)
JSON = ("Content-Type", "application/json")
SECONDS = 20


def bearer(server):
    return ("Authorization", f"Bearer {server.token}")


def get(server, path, *headers, host=True):
    return server.raw("GET", [bearer(server), *headers], path=path, host=host)


def post(server, body, *headers, host=True):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return server.raw("POST", [bearer(server), *(headers or [JSON])], body, path="/execute", host=host)


def run(server, tool, /, **args):
    """The lines of a call."""
    answer = post(server, {"tool_name": tool, "args": args})
    assert (answer.status, answer.headers["content-type"]) == (200, "application/x-ndjson"), answer.body
    assert answer.body.endswith(b"\n")
    return [json.loads(line) for line in answer.body.splitlines()]


def started(server, tool, /, **args):
    """A call whose answer is read while it runs."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=SECONDS)
    body = json.dumps({"tool_name": tool, "args": args})
    connection.request("POST", "/execute", body, dict([bearer(server), JSON]))
    return connection, connection.getresponse()


def ended_as(place, outcome):
    return [event for event in place.events() if event.outcome == outcome]


def test_the_catalogue_is_what_mcp_clients_are_served(door, talk):
    tools = json.loads(get(door, "/tools").body)["tools"]
    served = talk(door).send("tools/list").message["result"]["tools"]
    assert [(tool["name"], tool["description"], tool["inputSchema"], tool["outputSchema"]) for tool in served] == [
        (tool["name"], tool["description"], tool["input_schema"], schema_admitting_errors(tool["output_schema"]))
        for tool in tools
    ]
    flags = {tool["name"]: (tool["read_only"], tool["destructive"], tool["idempotent"]) for tool in tools}
    assert (flags["Read"], flags["Bash"]) == ((True, False, True), (False, True, False))
    assert {tool["title"] for tool in tools} >= {"Read", "Write", "Bash"}


def test_a_file_is_written_and_read_back_with_one_event_each(place):
    with place.http() as server:
        written = run(server, "Write", file_path="a.txt", content="hello\n")
        read = run(server, "Read", file_path="a.txt")
    assert [line["type"] for line in (*written, *read)] == ["result", "result"]
    assert "hello" in read[0]["content"][0]["text"]
    assert place.read("a.txt") == "hello\n"
    assert [(event.surface, event.tool, event.outcome) for event in place.events()] == [
        ("http", "Write", "ok"),
        ("http", "Read", "ok"),
    ]


def test_what_a_tool_cannot_do_is_the_last_line_with_a_hint(door):
    (missing,) = run(door, "Read", file_path="missing.txt")
    assert (missing["type"], missing["error"]["kind"], missing["error"]["code"]) == ("error", "tool", -32603)
    assert missing["error"]["hint"]
    (wrong,) = run(door, "Read", file="a.txt")
    fields = {each["field"] for each in wrong["error"]["validation_errors"]}
    assert (wrong["error"]["code"], fields) == (-32602, {"file_path", "file"})
    (outside,) = run(door, "Read", file_path="/etc/passwd")
    assert (outside["error"]["kind"], outside["error"]["code"]) == ("security", -32001)
    assert "ran" not in outside["error"]


def test_output_comes_while_the_command_runs(place):
    with place.http() as server:
        command = "echo first; while [ ! -e go ]; do sleep 0.05; done; echo second >&2"
        connection, answer = started(server, "Bash", command=command)
        told = [json.loads(answer.readline())]
        while told[-1]["type"] != "output":
            told.append(json.loads(answer.readline()))
        place.write("go", "")  # it can end only now that its first line was seen
        told += [json.loads(line) for line in answer]
        connection.close()
    printed = [(line["stream"], line["text"]) for line in told if line["type"] == "output"]
    assert printed == [("stdout", "first\n"), ("stderr", "second\n")]
    assert [line["type"] for line in told if line["type"] in {"result", "error"}] == ["result"]
    assert told[-1]["structured"]["stdout"] == "first\n"


@pytest.mark.parametrize(
    ("body", "headers", "status", "field"),
    [
        (b"", [JSON], BAD, "body"),
        (b"{", [JSON], BAD, "body"),
        (b"[]", [JSON], BAD, "body"),
        (b"\xff", [JSON], BAD, "body"),
        (b"[" * 100_000, [JSON], BAD, "body"),
        (b'{"tool_name": "LS", "args": {"path": "\\ud800"}}', [JSON], BAD, "body"),
        (b'{"tool_name": "LS", "tool_name": "Read"}', [JSON], BAD, "body"),
        (b'{"tool_name": "LS", "args": {"path": "a", "path": "b"}}', [JSON], BAD, "body"),
        ({}, [JSON], BAD, "tool_name"),
        ({"tool_name": 1}, [JSON], BAD, "tool_name"),
        ({"tool_name": ""}, [JSON], BAD, "tool_name"),
        ({"tool_name": "LS", "args": []}, [JSON], BAD, "args"),
        ({"tool_name": "LS", "arguments": {}}, [JSON], BAD, "arguments"),
        ({"tool_name": "ls"}, [JSON], UNKNOWN, "tool_name"),
        ({"tool_name": "x" * 100_000}, [JSON], UNKNOWN, "tool_name"),
        ({"tool_name": "LS"}, [("Content-Type", "text/plain")], WRONG_TYPE, "Content-Type"),
        ({"tool_name": "LS"}, [("Accept", "*/*")], WRONG_TYPE, "Content-Type"),
        ({"tool_name": "LS"}, [JSON, ("Content-Encoding", "gzip")], WRONG_TYPE, "Content-Encoding"),
        (b'"' + b"x" * (33 << 20), [JSON], TOO_LARGE, "body"),
        (b'{"tool_name": "LS", "args": {"path": [' + b"0," * 1_100_000 + b"0]}}", [JSON], TOO_LARGE, "body"),
    ],
    ids=[
        *(
            "empty",
            "cut off",
            "a list",
            "not text",
            "deep",
            "half a letter",
            "a name twice",
            "an argument twice",
            "no tool",
            "a number",
            "no name",
        ),
        *("args as a list", "unknown key", "no such tool", "a long name", "as text", "no type", "gzip"),
        *("33 MB", "a million parts"),
    ],
)
def test_a_request_that_cannot_be_right_is_refused_and_nothing_is_run(door, body, headers, status, field):
    answer = post(door, body, *headers)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/json")
    error = json.loads(answer.body)["error"]
    assert (error["code"], error["kind"], error["retryable"], error["ran"]) == (-32602, "validation", False, False)
    assert ([each["field"] for each in error["validation_errors"]], bool(error["hint"])) == ([field], True)
    assert run(door, "LS")[-1]["type"] == "result"


def test_a_body_that_grows_past_the_limit_without_saying_so_is_refused(door):
    with socket.create_connection((door.host, door.port), SECONDS) as raw:
        head = f"POST /execute HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {door.token}\r\n"
        raw.sendall(f"{head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        piece = b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"
        try:
            for _ in range(34):
                raw.sendall(piece)
        except OSError:
            pass  # it is refused before it was all sent
        assert raw.recv(100).startswith(b"HTTP/1.1 413 ")


def test_a_near_miss_of_a_name_is_met_with_the_name(door):
    error = json.loads(post(door, {"tool_name": "Raed"}).body)["error"]
    assert error["hint"] == "Did you mean Read?"
    assert json.loads(post(door, {"tool_name": "Lss"}).body)["error"]["hint"] == "Did you mean LS?"
    assert json.loads(post(door, {"tool_name": "zzz"}).body)["error"]["hint"] == "GET /tools lists the tools."


@pytest.mark.parametrize(("key", "meant"), [("arguments", "args"), ("Args", "args"), ("tool", "tool_name")])
def test_a_near_miss_of_a_key_is_met_with_the_key(door, key, meant):
    error = json.loads(post(door, {"tool_name": "LS", key: {}}).body)["error"]
    assert (error["message"], error["hint"].startswith(f"Did you mean {meant}? Send ")) == (
        f"{key}: is not a member of a request",
        True,
    )
    other = json.loads(post(door, {"tool_name": "LS", "zzz": {}}).body)["error"]
    assert other["hint"].startswith("Send ")


def test_who_comes_to_the_top_is_shown_the_way_to_the_page(door):
    response = door.raw("GET", [("Authorization", f"Bearer {door.token}")], path="/")
    assert (response.status, response.headers["location"]) == (307, "docs")
    assert b"/docs" in response.body


@pytest.mark.parametrize("path", WAYS)
def test_each_path_wants_the_token_the_name_the_origin_and_the_method(door, path):
    way, body = WAYS[path], b'{"tool_name": "LS"}'
    assert door.raw(way, [JSON], body, path=path).status == UNAUTHORIZED
    assert door.raw(way, [("Authorization", "Bearer wrong"), JSON], body, path=path).status == UNAUTHORIZED
    for host, status in {
        "evil.example": MISDIRECTED,
        "localhost.evil.example:80": MISDIRECTED,
        "": MISDIRECTED,
    }.items():
        answer = door.raw(way, [("Host", host), bearer(door), JSON], body, path=path, host=False)
        assert (answer.status, json.loads(answer.body)["error"]["kind"]) == (status, "security")
    for origin in ("http://evil.example", "null"):
        answer = door.raw(way, [("Origin", origin), bearer(door), JSON], body, path=path)
        assert (answer.status, json.loads(answer.body)["error"]["kind"]) == (FORBIDDEN, "security")
    assert door.raw(way, [("Origin", "http://localhost:1"), bearer(door), JSON], body, path=path).status == 200
    for other in {"GET", "POST", "PUT", "DELETE", "OPTIONS"} - {way}:
        answer = door.raw(other, [bearer(door), JSON], body, path=path)
        assert (answer.status, way in answer.headers["allow"]) == (NOT_ALLOWED, True)


def test_a_caller_that_goes_away_cancels_its_call(place, wait_until, children):
    with place.http() as server:
        connection, answer = started(server, "Grep", **place.endless())
        assert json.loads(answer.readline())["type"] == "progress"
        assert "rg" in children(server.process.pid)
        answer.close()
        connection.close()
        wait_until(lambda: ended_as(place, "cancelled"))
        wait_until(lambda: "rg" not in children(server.process.pid))
        assert run(server, "LS")[-1]["type"] == "result"
    assert [(event.tool, event.outcome) for event in place.events()] == [("Grep", "cancelled"), ("LS", "ok")]


def test_who_does_not_read_stalls_nobody_and_is_told_what_was_left_out(place, wait_until):
    with place.http() as server:
        connection, answer = started(server, "Bash", command="yes | head -c 8000000")
        wait_until(lambda: ended_as(place, "ok"))  # the command has ended, and hardly anything of it was read
        assert run(server, "LS")[-1]["type"] == "result"
        told = [json.loads(line) for line in answer]
        connection.close()
    dropped = sum(line.get("dropped", 0) for line in told)
    printed = sum(len(line["text"]) for line in told if line["type"] == "output")
    assert dropped > 0
    assert printed + dropped == 8_000_000
    assert told[-1]["type"] == "result"
    assert told[-1]["structured"]["output_file"]


def test_a_server_that_is_stopped_ends_its_calls_and_records_them(place):
    with place.http() as server:
        connection, answer = started(server, "Grep", **place.endless())
        assert json.loads(answer.readline())["type"] == "progress"
        assert server.stop(signal.SIGTERM) == 0
        last = json.loads(answer.read().splitlines()[-1])
        connection.close()
        assert not any("Traceback" in line for line in server.said), "".join(server.said)
    message = "The call was cancelled: the server is shutting down."
    assert (last["type"], last["error"]["message"]) == ("error", message)
    assert [(event.tool, event.outcome) for event in place.events()] == [("Grep", "cancelled")]


def test_nothing_of_the_token_is_kept_or_said(place):
    with place.http() as server:
        said = [get(server, path).body for path in ("/tools", "/openapi.json", "/docs")]
        run(server, "LS")
        server.stop()
    assert not any(server.token.encode() in body for body in said)
    assert server.token not in "".join(server.said)
    for parent, _, names in os.walk(place.state):
        for name in names:
            with open(os.path.join(parent, name), "rb") as file:
                assert server.token.encode() not in file.read()
