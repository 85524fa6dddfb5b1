"""Who gets through the HTTP door, and what is said to those who do not."""

from __future__ import annotations

import json
import os
import socket
import subprocess

import pytest
from starlette.types import Message

from toolyard.testing.mcp_client import expect_error, expect_result
from toolyard.transports.mcp.request_checks import RequestChecks

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
REFUSAL = b'{"error": "unauthorized", "hint": "Send the header Authorization: Bearer <token>."}'
DOORS_REFUSAL = {
    "code": -32001,
    "kind": "security",
    "message": "The bearer token is missing or wrong.",
    "hint": "Send the header Authorization: Bearer <token>.",
    "retryable": False,
    "ran": False,
}
# What the transport says to a ping without a session: the request came through the door.
THROUGH = 400
UNAUTHORIZED, FORBIDDEN, MISDIRECTED, TOO_LARGE = 401, 403, 421, 413


def bearer(value: str) -> list[tuple[str, str]]:
    return [("Authorization", value)]


@pytest.mark.parametrize(
    "given",
    [
        lambda token: [],
        lambda token: bearer("Bearer wrong"),
        lambda token: bearer("Bearer"),
        lambda token: bearer(""),
        bearer,
        lambda token: bearer(f"Basic {token}"),
        lambda token: bearer(f"Bearer {token}x"),
        lambda token: bearer(f"Bearer {token[:-1]}"),
        lambda token: bearer(f"Bearer {token} {token}"),
        lambda token: bearer(f"Bearer {token}") * 2,
        lambda token: [*bearer("Bearer wrong"), *bearer(f"Bearer {token}")],
        lambda token: bearer(f"Bearer {token}é"),
    ],
    ids=[
        *("none", "wrong", "bare scheme", "empty", "no scheme", "basic", "longer", "shorter"),
        *("twice in one", "two headers", "wrong first", "not ascii"),
    ],
)
def test_without_the_one_right_token_nothing_is_answered(door, given):
    headers = given(door.token)
    response = door.raw("POST", [*headers, *door.usual()[1:]], PING)
    assert (response.status, response.body, response.headers["www-authenticate"]) == (UNAUTHORIZED, REFUSAL, "Bearer")
    for method in ("GET", "DELETE", "OPTIONS", "PUT"):
        assert door.raw(method, headers).status == UNAUTHORIZED
    for path in ("/other", "/", "/tools", "/mcp/"):
        elsewhere = door.raw("GET", headers, path=path)
        assert (elsewhere.status, elsewhere.headers["www-authenticate"]) == (UNAUTHORIZED, "Bearer")
        assert json.loads(elsewhere.body)["error"] == DOORS_REFUSAL


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_is_known_in_any_case(door, scheme):
    headers = [*bearer(f"{scheme} {door.token}"), *door.usual()[1:]]
    assert door.raw("POST", headers, PING).status == THROUGH


def test_a_page_that_rebinds_its_name_to_us_is_refused(door):
    hosts = {
        "evil.example": MISDIRECTED,
        "evil.example:80": MISDIRECTED,
        "127.0.0.1.evil.example": MISDIRECTED,
        "localhost.evil.example:80": MISDIRECTED,
        "127.0.0.1:80.evil.example": MISDIRECTED,
        "127.0.0.1:80@evil.example": MISDIRECTED,
        "localhost:": MISDIRECTED,
        "localhost:²": MISDIRECTED,
        "": MISDIRECTED,
        "LOCALHOST": THROUGH,
        "127.0.0.1": THROUGH,
        "localhost:1234": THROUGH,
        "[::1]:1234": THROUGH,
    }
    seen = {host: door.raw("POST", [("Host", host), *door.usual()], PING, host=False).status for host in hosts}
    assert seen == hosts


def test_a_page_of_another_origin_is_refused(door):
    origins = {
        "http://evil.example": FORBIDDEN,
        "https://localhost.evil.example": FORBIDDEN,
        "http://localhost:80.evil.example": FORBIDDEN,
        "http://localhost:80@evil.example": FORBIDDEN,
        "http://localhost/": FORBIDDEN,
        "null": FORBIDDEN,
        "file://": FORBIDDEN,
        "http://localhost:3000": THROUGH,
        "https://127.0.0.1": THROUGH,
    }
    seen = {origin: door.raw("POST", [("Origin", origin), *door.usual()], PING).status for origin in origins}
    assert seen == origins


def test_a_further_name_of_ours_can_be_allowed(place):
    with place.http("--allow-host", "box.example") as server:
        allowed = server.raw("POST", [("Host", "box.example:80"), *server.usual()], PING, host=False)
        other = server.raw("POST", [("Host", "evil.example"), *server.usual()], PING, host=False)
    assert (allowed.status, other.status) == (THROUGH, MISDIRECTED)


@pytest.mark.parametrize("path", ["/mcp", "/execute"])
def test_a_request_with_two_lengths_is_refused(door, path):
    headers = [*door.usual(), ("Transfer-Encoding", "chunked")]
    body = b"13\r\n" + b'{"tool_name": "LS"}' + b"\r\n0\r\n\r\n"
    response = door.raw("POST", headers, body, path=path)
    assert (response.status, response.headers["connection"]) == (THROUGH, "close")
    assert "Content-Length" in json.loads(response.body)["error"]["message"]


@pytest.mark.parametrize(
    "message",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"LS","arguments":{"path":"a","p\\u0061th":"b"}}}',
        b'{"id":1,"id":' + b"9" * 5000 + b"}",
    ],
    ids=["method", "escaped", "beside a long number"],
)
def test_a_message_with_a_key_twice_is_refused(door, message):
    response = door.raw("POST", door.usual(), message)
    error = json.loads(response.body)["error"]
    assert (response.status, error["code"], "twice" in error["message"]) == (THROUGH, -32602, True)


def test_a_message_of_a_million_parts_is_refused(door):
    response = door.raw("POST", door.usual(), b"[" + b"0," * 1_000_000 + b"0]")
    assert (response.status, "too many parts" in json.loads(response.body)["error"]["message"]) == (TOO_LARGE, True)


@pytest.mark.parametrize("hosts", [[], [b"here", b"here"], [b"here", b"evil.example"]], ids=["none", "twice", "two"])
async def test_a_request_that_does_not_name_one_host_is_refused(hosts):
    """Whatever the HTTP server in front of the check lets through."""
    sent: list[Message] = []

    async def app(*_: object) -> None:
        pytest.fail("it was served")

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/tools", "headers": [(b"host", host) for host in hosts]}
    await RequestChecks(app, ["here"])(scope, receive, send)
    assert sent[0]["status"] == MISDIRECTED


def test_a_body_over_the_limit_is_refused_and_the_server_goes_on(door, talk):
    assert door.raw("POST", door.usual(), b'"' + b"x" * (33 << 20)).status == TOO_LARGE
    assert expect_result(talk(door).call("LS"))


def test_a_message_of_12_mb_is_taken(door, talk, modern):
    error = expect_error(talk(door, modern=modern).call("Write", file_path="big.txt", content="x" * (12 << 20)))
    assert error["code"] in {-32602, -32603}


def test_a_fresh_token_is_printed_once_on_stderr_and_kept_nowhere(place, talk):
    with place.http(token=None) as server:
        assert len(server.token) >= 43
        session = talk(server)
        assert expect_result(session.call("LS"))
        refusals = [
            server.raw("POST", bearer("Bearer wrong"), PING).body,
            str(session.call("Read", file_path=server.token)).replace(f"'{server.token}'", "").encode(),
        ]
        server.stop()
        said = "".join(server.said)
    assert said.count(server.token) == 1
    assert server.token.encode() not in refusals[0]
    assert not holding(place.state, server.token.encode())
    assert not holding(place.env["HOME"], server.token.encode())


def holding(folder: str, secret: bytes) -> list[str]:
    """The files that hold a secret. The audit log names what was touched, so a token used as a path is not one."""
    found: list[str] = []
    for parent, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(parent, name), "rb") as file:
                found += [name for line in file if secret in line and b'"tool":"Read"' not in line]
    return found


def test_a_token_of_the_environment_is_never_printed(place, talk):
    with place.http() as server:
        session = talk(server)
        session.call("LS")
        session.call("Read", file_path="missing")
        server.raw("POST", [*bearer("Bearer wrong"), *server.usual()[1:]], PING)
        server.stop()
    assert server.token not in "".join(server.said)
    assert not holding(place.state, server.token.encode())


def test_each_start_without_a_token_makes_another_one(place):
    tokens: set[str] = set()
    for _ in range(2):
        with place.http(token=None) as server:
            tokens.add(server.token)
    assert len(tokens) == 2


def test_a_port_in_use_is_an_error_that_says_what_to_do(place):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = subprocess.run(
            place.command("--http", f"127.0.0.1:{port}"), env=place.env, capture_output=True, check=False
        )
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert ended.stderr.decode() == (
        f"toolyard: Cannot listen on 127.0.0.1:{port}: Address already in use. "
        "Choose another port, or 0 for a free one.\n"
    )


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:65536"])
def test_an_address_that_is_none_is_refused_before_anything_is_opened(place, address):
    ended = subprocess.run(place.command("--http", address), env=place.env, capture_output=True, check=False)
    assert ended.returncode == 2
    assert b"expected HOST:PORT, such as 127.0.0.1:8765" in ended.stderr
    assert os.listdir(place.state) == []


def test_ipv6_is_served_by_its_own_name(place, talk):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with place.http(address="[::1]:0") as server:
        assert server.said[0].startswith(f"Serving {place.workspace} at http://[::1]:")
        assert expect_result(talk(server).call("LS"))
