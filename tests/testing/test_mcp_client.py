"""The plain client speaks both eras to a real server, and to one that misbehaves."""

import sys

import pytest

from toolyard.testing.mcp_client import HANDSHAKE_VERSION, ServerGone, StdioClient, expect_error

ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)\n"


@pytest.fixture
def command(tmp_path):
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "a.txt").write_text("content\n")
    arguments = ["-m", "toolyard", "mcp", "--workspace", str(tmp_path / "ws"), "--state", str(tmp_path / "state")]
    return [sys.executable, *arguments]


@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "modern"])
def test_a_tool_is_called_in_either_era(command, modern):
    with StdioClient(command, modern=modern) as client:
        answer = client.call("Read", file_path="a.txt")
        refused = client.call("Read", file_path="/etc/passwd")

        assert answer["result"]["structuredContent"]["total_lines"] == 1
        assert expect_error(refused)["code"] == -32001
        assert bool(client.initialize_response) is not modern
        assert client.close() == 0


def test_the_handshake_is_kept_as_it_came(command):
    with StdioClient(command) as client:
        assert client.initialize_response["result"]["protocolVersion"] == HANDSHAKE_VERSION


def test_answers_are_taken_by_their_id_whatever_comes_between(command):
    with StdioClient(command) as client:
        first = client.send_request("tools/list", {})
        second = client.send_request("tools/call", {"name": "Read", "arguments": {"file_path": "a.txt"}})

        assert client.wait_for_response(second)["id"] == second != first


def test_a_server_that_ends_is_said_to_be_gone():
    client = StdioClient([sys.executable, "-c", "pass"], modern=True)
    client.process.wait()

    with pytest.raises(ServerGone):
        client.receive()
    assert client.close() == 0


def test_closing_works_when_the_server_went_away_before_it_read():
    client = StdioClient([sys.executable, "-c", "pass"], modern=True)
    client.process.wait()
    client._in.write(b"x" * 10)

    assert client.close() == 0


def test_what_is_sent_is_one_line_of_json_with_the_era_in_its_envelope():
    with StdioClient([sys.executable, "-c", ECHO], modern=True, client_name="me") as client:
        client.send_request("tools/call", {"name": "x"})

        assert client.receive() == {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {
                "name": "x",
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                    "io.modelcontextprotocol/clientInfo": {"name": "me", "version": "1"},
                },
            },
        }


def test_notifications_are_kept_and_requests_of_the_server_answered():
    script = (
        "import json, sys\n"
        "def say(**message): print(json.dumps({'jsonrpc': '2.0', **message}), flush=True)\n"
        "asked = json.loads(sys.stdin.readline())\n"
        "say(method='notifications/progress', params={'progress': 1})\n"
        "say(id='r', method='roots/list')\n"
        "roots = json.loads(sys.stdin.readline())\n"
        "say(id='q', method='elicitation/create')\n"
        "refused = json.loads(sys.stdin.readline())\n"
        "say(id=asked['id'], result=[roots['result'], refused['error']['code']])\n"
    )
    with StdioClient([sys.executable, "-c", script], modern=True) as client:
        answer = client.request("ping")

        assert answer["result"] == [{"roots": []}, -32601]
        assert [note["method"] for note in client.notifications] == ["notifications/progress"]
