"""Messages that are no messages, or too much of one: answered in words, and the next call works."""

import json

import pytest

MIB = 1 << 20
PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS = -32700, -32600, -32602
HEADER_MISMATCH = -32020

BROKEN = (
    b"{",
    b"}",
    b"{broken",
    b"null",
    b"7",
    b'"text"',
    b"[]",
    b"[1, 2]",
    b"{}",
    b'{"jsonrpc": "1.0", "id": 1, "method": "tools/list"}',
    b'{"jsonrpc": "2.0", "id": 1.5, "method": 7}',
    b'{"jsonrpc": "2.0", "method": ["tools/list"], "id": 1}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": "text"}',
    b"\xff\xfe\x00\x00",
    b"\xef\xbb\xbf{}",
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "\xc3\x28"}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"a": "\\ud800"}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "x"} trailing',
    b"[" * 200_000,
    b'{"a":' * 100_000,
    b"GET / HTTP/1.1",
    b"\x00" * 100,
    b'[{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}]',
    b'[{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}]',
)


# What the SDK takes for a notification: over HTTP it is accepted as one, on stdio its sender would wait for ever.
NO_ID = (
    b'{"jsonrpc": "2.0", "id": {}, "method": "tools/list"}',
    b'{"jsonrpc": "2.0", "id": null, "method": "tools/list"}',
    b'{"jsonrpc": "2.0", "id": [1], "method": "tools/list"}',
)


@pytest.mark.parametrize("line", [*BROKEN, *NO_ID], ids=range(len(BROKEN) + len(NO_ID)))
def test_a_broken_line_is_answered_on_stdio(stdio, line):
    stdio.client.send_bytes(line)
    answer = stdio.client.receive()
    assert answer["error"]["code"] in {PARSE_ERROR, INVALID_REQUEST}
    assert "Send one JSON-RPC 2.0 message a line" in answer["error"]["message"]
    stdio.still_answers()


@pytest.mark.parametrize("line", [b"", b" ", b"\t\r"])
def test_a_blank_line_is_passed_over_on_stdio(stdio, line):
    stdio.client.send_bytes(line)
    stdio.still_answers()


@pytest.mark.parametrize("body", [*BROKEN, b"", b" "], ids=range(len(BROKEN) + 2))
def test_a_broken_body_is_refused_over_http(http, body):
    status, answer = http.client.send_bytes(body)
    assert status == 400, answer[:300]
    assert json.loads(answer)["error"]["code"] < 0
    http.still_answers()


def large_write(size: int) -> dict[str, str]:
    return {"file_path": "large.txt", "content": "x" * size}


def test_a_message_of_12_mb_is_answered(wire, refused):
    before = wire.world.fingerprint()
    refused(wire.call("Write", large_write(12 * MIB)), INVALID_PARAMS)
    assert wire.world.fingerprint() == before
    wire.still_answers()


def test_a_file_just_under_the_limit_is_written(wire):
    assert wire.call("Write", large_write(10 * MIB)).code == 0
    wire.still_answers()


@pytest.mark.slow
def test_a_line_of_70_mb_is_refused_and_the_next_one_taken(stdio):
    stdio.client.send_bytes(
        b'{"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"a": "' + b"x" * (70 * MIB) + b'"}}'
    )
    answer = stdio.client.receive()
    assert answer["error"]["code"] == INVALID_REQUEST
    assert "longer than" in answer["error"]["message"]
    stdio.still_answers()


def test_a_body_of_40_mb_is_refused_over_http(http):
    try:
        status, _ = http.client.send_bytes(b"[" + b" " * (40 * MIB) + b"]")
    except (BrokenPipeError, ConnectionResetError):
        status = 413  # the server hung up on us while we were still sending: it read no more than it had to
    assert status == 413
    http.still_answers()


@pytest.mark.parametrize(
    "params",
    [
        {"name": 7, "arguments": {}},
        {"name": None},
        {"arguments": {"file_path": "a.txt"}},
        {"name": "Read", "arguments": []},
        {"name": "Read", "arguments": "file_path=a.txt"},
        {"name": "Read", "arguments": 7},
        {"name": ["Read"], "arguments": {"file_path": "a.txt"}},
    ],
    ids=str,
)
def test_a_call_of_the_wrong_shape_is_invalid(wire, params):
    answer = wire.client.request("tools/call", params)
    # The modern era compares the name with a header before it looks at its type.
    assert answer["error"]["code"] in {INVALID_PARAMS, HEADER_MISMATCH}
    wire.still_answers()


@pytest.mark.parametrize("method", ["tools/exec", "", "tools/call ", "../tools/call", "x" * 10_000])
def test_an_unknown_method_is_answered(wire, method):
    answer = wire.client.request(method, {})
    assert answer["error"]["code"] < 0
    wire.still_answers()


@pytest.mark.parametrize(
    "token",
    [
        "",
        "Bearer ",
        "Bearer wrong",
        "Basic a-token-for-the-tests",
        "Bearer a-token-for-the-tests-",
        "Bearer a-token-for-the-test",
    ],
)
def test_without_the_token_nothing_is_read_over_http(http, token):
    status, body = http.client.send_bytes(b"{}", {"Authorization": token})
    assert status == 401
    assert b"Authorization: Bearer" in body
    http.still_answers()


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:80"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
    ids=str,
)
def test_another_host_or_origin_is_refused_over_http(http, headers):
    status, _ = http.client.send_bytes(b"{}", headers)
    assert status in {403, 421}
    http.still_answers()
