"""The server on a pipe: what it says, and what it does with lines that nobody should send."""

from __future__ import annotations

import json
import subprocess

from toolyard import __version__
from toolyard.testing.mcp_client import HANDSHAKE_VERSION, MODERN_VERSION, expect_error, expect_result

TOOLS = [
    *("Read", "Write", "Edit", "MultiEdit", "NotebookEdit"),
    *("Bash", "BashOutput", "KillShell", "Grep", "Glob", "LS"),
]
SEND_JSON = "Send one JSON-RPC 2.0 message a line, as UTF-8."
NOT_JSON = {"code": -32700, "message": f"Refused: the line is not JSON. {SEND_JSON}"}
NOT_RPC = {
    "code": -32600,
    "message": f"Refused: the message is not valid JSON-RPC, or its text is not valid Unicode. {SEND_JSON}",
}


def repeats(key: str):
    return {
        "code": -32600,
        "message": f"Refused: the message has the key {key!r} twice in one object. Send each key once.",
    }


def test_the_handshake_names_the_server_its_abilities_and_the_workspace(place):
    with place.stdio() as client:
        assert client.initialize_response["result"] == {
            "protocolVersion": HANDSHAKE_VERSION,
            "capabilities": {
                "logging": {},
                "resources": {"listChanged": False, "subscribe": False},
                "tools": {"listChanged": False},
            },
            "serverInfo": {"name": "toolyard", "title": "Toolyard", "version": __version__},
            "instructions": (
                f"Tools for the workspace {place.workspace}. Paths may be absolute or relative to it. "
                "Commands and code run in a sandbox that sees the workspace and has no network unless hosts "
                "were allowed. "
                "Permission mode: strict. Errors say what to do next."
            ),
        }


def test_who_runs_code_is_told_in_a_line_how_to_keep_what_later_sessions_need(place):
    with place.stdio("--tools", "code", "--permission-mode", "bypassPermissions") as client:
        said = client.initialize_response["result"]["instructions"]
        told = said.partition("There, toolyard_runtime keeps what later sessions need: ")[2].partition(". ")[0]
        assert told.split(", ") == ["memory.remember", "memory.recall", "save_skill"]
        code = (
            "from toolyard_runtime import memory, save_skill\n"
            "memory.remember('deploy on Tuesdays')\n"
            "(memory.recall('when to deploy')[0]['text'], callable(save_skill))"
        )
        answer = client.call("execute_python", code=code)["result"]
    assert answer["structuredContent"]["value"] == "('deploy on Tuesdays', True)"


def test_a_client_of_the_stateless_protocol_discovers_the_same_without_a_handshake(place):
    with place.stdio(modern=True) as client:
        found = client.request("server/discover")["result"]
    assert MODERN_VERSION in found["supportedVersions"]
    assert found["capabilities"].keys() == {"extensions", "logging", "resources", "tools"}
    assert place.workspace in found["instructions"]


def test_an_older_handshake_is_answered_in_its_own_version(place):
    with place.stdio() as client:
        greeting = client.request(
            "initialize",
            {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}},
        )
    assert greeting["result"]["protocolVersion"] == "2025-06-18"


def test_the_tools_are_listed_with_annotations_and_both_schemas(place, modern):
    with place.stdio(modern=modern) as client:
        tools = client.request("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == TOOLS
    for tool in tools:
        assert tool["inputSchema"]["type"] == tool["outputSchema"]["type"] == "object"
        assert tool["inputSchema"]["additionalProperties"] is False
        assert tool["annotations"].keys() == {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
    readers = {tool["name"] for tool in tools if tool["annotations"]["readOnlyHint"]}
    assert readers == {"Read", "BashOutput", "Grep", "Glob", "LS"}


def test_a_result_says_the_same_as_text_and_as_structure(place, modern):
    place.write("a.txt", "one\ntwo\n")
    with place.stdio(modern=modern) as client:
        result = client.call("Read", file_path="a.txt")["result"]
    numbered = "     1\tone\n     2\ttwo"
    assert (result["content"], result["structuredContent"]) == (
        [{"type": "text", "text": numbered}],
        {
            "path": "a.txt",
            "kind": "text",
            "content": "one\ntwo\n",
            "first_line": 1,
            "line_count": 2,
            "total_lines": 2,
            "truncated": False,
            "encoding": "utf-8",
        },
    )


def test_each_kind_of_error_has_its_code_and_says_what_to_do_next(place, modern):
    with place.stdio(modern=modern) as client:
        answers = {
            "security": client.call("Read", file_path="/etc/passwd"),
            "validation": client.call("Read", file_path=7),
            "tool": client.call("Read", file_path="missing.txt"),
        }
    errors = {kind: expect_error(answer) for kind, answer in answers.items()}
    assert {kind: error["code"] for kind, error in errors.items()} == {
        "security": -32001,
        "validation": -32602,
        "tool": -32603,
    }
    assert {kind: error["data"]["kind"] for kind, error in errors.items()} == {kind: kind for kind in errors}
    assert errors["validation"]["data"]["validation_errors"] == [
        {"field": "file_path", "error": "input should be a valid string"}
    ]
    assert place.workspace in errors["security"]["message"]


def test_a_tool_that_does_not_exist_is_refused_with_the_closest_name(place, modern):
    with place.stdio(modern=modern) as client:
        error = client.call("Raed")["error"]
    assert error["code"] == -32602
    assert error["data"]["hint"] == "Did you mean Read?"


def test_an_unknown_method_is_refused_and_the_server_goes_on(place, modern):
    with place.stdio(modern=modern) as client:
        assert client.request("no/such/method")["error"]["code"] == -32601
        assert expect_result(client.call("LS"))


CALL = b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"LS","arguments":'
BROKEN_LINES = {
    b'{"jsonrpc": "2.0", ': (None, NOT_JSON),
    b"\xff\xfe\x00": (None, NOT_JSON),
    b"[" * 100_000: (None, NOT_JSON),
    b"[]": (None, NOT_RPC),
    b'"text"': (None, NOT_RPC),
    b'{"jsonrpc":"1.0","id":7,"method":"ping"}': (7, NOT_RPC),
    b'{"jsonrpc":"2.0","id":"x","method":5}': ("x", NOT_RPC),
    b'{"jsonrpc":"2.0","id":true,"method":5}': (None, NOT_RPC),
    rb'{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"\ud800"}}': (8, NOT_RPC),
    CALL + b'{"path":".","path":"/"}}}': (9, repeats("path")),
    CALL + rb'{"path":".","p\u0061th":"/"}}}': (9, repeats("path")),
    CALL + b'{},"arguments":{}}}': (9, repeats("arguments")),
    CALL + b'{}},"params":{"name":"Bash"}}': (9, repeats("params")),
    CALL + b'{"id":1,"id":2}}}': (9, repeats("id")),
    CALL + b'{}},"id":10}': (None, repeats("id")),
    b'{"jsonrpc":"2.0","id":9,"method":"ping","method":"tools/list"}': (9, repeats("method")),
    b'[{"id":9,"id":9}]': (None, repeats("id")),
    CALL + b'{"n":1,"n":' + b"9" * 5000 + b"}}}": (None, repeats("n")),
}


def test_lines_that_are_no_messages_are_answered_and_the_server_goes_on(place):
    answers = {}
    with place.stdio() as client:
        for line in BROKEN_LINES:
            client.send_bytes(line)
            answers[line] = client.receive()
            assert client.request("ping")["result"] == {}
    assert answers == {
        line: {"jsonrpc": "2.0", "id": identity, "error": error} for line, (identity, error) in BROKEN_LINES.items()
    }


def test_empty_lines_are_passed_over(place):
    with place.stdio() as client:
        client.send_bytes(b"\n  \n\r")
        assert client.request("ping")["result"] == {}


def test_a_line_longer_than_the_limit_is_refused_and_the_server_goes_on(place):
    with place.stdio() as client:
        client.send_bytes(b'"' + b"x" * (65 << 20))
        assert client.receive()["error"]["code"] == -32600
        assert client.request("ping")["result"] == {}


def test_a_message_of_12_mb_is_taken_and_what_it_asks_is_refused_by_its_size(place, modern):
    with place.stdio(modern=modern) as client:
        error = expect_error(client.call("Write", file_path="big.txt", content="x" * (12 << 20)))
        assert error["code"] in {-32602, -32603}
        assert expect_result(client.call("Write", file_path="small.txt", content="y"))
    assert place.read("small.txt") == "y"


def test_results_larger_than_the_pipe_arrive_whole(place):
    place.write("big.txt", "".join(f"{number:050}\n" for number in range(1000)))
    with place.stdio() as client:
        ids = [
            client.send_request("tools/call", {"name": "Read", "arguments": {"file_path": "big.txt"}})
            for _ in range(20)
        ]
        answers = {answer["id"]: answer for answer in (client.receive() for _ in ids)}
    assert [answers[request]["result"]["structuredContent"]["total_lines"] for request in ids] == [1000] * 20


def test_the_end_of_input_ends_the_server_with_exit_code_0(place, modern):
    assert place.stdio(modern=modern).close() == 0


def test_answers_to_a_last_message_without_a_line_break_still_come(place):
    said = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}})
    ended = subprocess.run(place.command(), input=said.encode(), capture_output=True, env=place.env, check=False)
    assert (json.loads(ended.stdout)["id"], ended.returncode) == (1, 0)


def test_a_file_may_be_the_input(place, tmp_path):
    lines = [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": HANDSHAKE_VERSION,
                "capabilities": {},
                "clientInfo": {"name": "file", "version": "1"},
            },
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    script = tmp_path / "script.jsonl"
    script.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with script.open("rb") as file:
        ended = subprocess.run(place.command(), stdin=file, capture_output=True, env=place.env, check=False)
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert ([answer["id"] for answer in answers], ended.returncode, ended.stderr) == ([1, 2], 0, b"")


def test_nothing_as_input_ends_the_server_at_once(place):
    ended = subprocess.run(place.command(), stdin=subprocess.DEVNULL, capture_output=True, env=place.env, check=False)
    assert (ended.stdout, ended.stderr, ended.returncode) == (b"", b"", 0)


def test_a_client_that_closes_its_end_of_our_output_ends_the_server_quietly(place):
    server = place.start(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    server.stdout.close()
    server.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    server.stdin.flush()
    assert server.wait(40) == 0
    server.stdin.close()
    with server.stderr:
        assert server.stderr.read() == b""


def test_a_workspace_that_is_not_there_is_said_on_stderr_and_nothing_on_stdout(place):
    ended = subprocess.run(
        [*place.command(), "--workspace", "/no/such/folder"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=place.env,
        check=False,
    )
    assert (ended.stdout, ended.returncode) == (b"", 2)
    assert b"/no/such/folder is not a folder" in ended.stderr
