from __future__ import annotations

import sys

import pytest

from toolyard.testing.mcp_client import StdioClient

pytestmark = pytest.mark.slow  # a start of the server for each test, in every era

PIXEL = b"\x89PNG\r\n\x1a\n" + bytes.fromhex(
    "0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


class Old(StdioClient):
    """Asks for an older protocol."""

    def request(self, method, params=None):
        if method == "initialize":
            params = {**params, "protocolVersion": "2024-11-05"}
        return super().request(method, params)


@pytest.fixture(params=["old", "handshake", "modern"])
def client(request, tmp_path):
    workspace = tmp_path / "ws"
    workspace.mkdir()
    (workspace / "a.txt").write_text("one\ntwo\n")
    (workspace / "p.png").write_bytes(PIXEL)
    command = (sys.executable, "-m", "toolyard", "mcp", "--workspace", str(workspace), "--state", str(tmp_path / "s"))
    kind = Old if request.param == "old" else StdioClient
    with kind(command, modern=request.param == "modern") as opened:
        yield opened


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("Read", {"file_path": "a.txt"}), ("Read", {"file_path": "p.png"}), ("Grep", {"pattern": "two"})],
)
def test_the_short_way_answers_as_the_sdk_does(client, tool, arguments):
    plain = {"name": tool, "arguments": arguments}
    short = client.request("tools/call", plain)["result"]
    # A parameter nobody knows sends the same call the SDK's way.
    long = client.request("tools/call", {**plain, "unknown": 1})["result"]
    assert short == long
    assert "structuredContent" in short


def test_a_progress_token_does_not_change_the_answer(client):
    plain = {"name": "Read", "arguments": {"file_path": "a.txt"}}
    with_token = {**plain, "_meta": {"progressToken": "t"}}
    assert client.request("tools/call", with_token)["result"] == client.request("tools/call", plain)["result"]


@pytest.mark.parametrize(
    "params", [{"name": 5}, {"name": "Read", "arguments": []}, {"arguments": {}}, {"name": "Read", "arguments": "x"}]
)
def test_what_is_not_a_call_is_refused_and_the_server_stays(client, params):
    assert client.request("tools/call", params)["error"]["code"] == -32602
    assert client.call("Read", file_path="a.txt")["result"]["isError"] is False


def test_a_call_before_the_handshake_is_refused(tmp_path):
    command = (sys.executable, "-m", "toolyard", "mcp", "--workspace", str(tmp_path), "--state", str(tmp_path) + "-s")
    with Eager(command) as client:
        assert client.initialize_response["error"]["code"] == -32602


class Eager(StdioClient):
    """Calls a tool where others shake hands."""

    def request(self, method, params=None):
        if method == "initialize":
            method, params = "tools/call", {"name": "LS", "arguments": {}}
        return super().request(method, params)
