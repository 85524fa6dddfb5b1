"""The server beside the loading of the SDK: not begun when it is not needed, outlived, broken off, and failed."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace

import pytest

from toolyard.testing.mcp_client import StdioClient, expect_error, expect_result

DEADLINE_SECONDS = 20.0
BROKEN = "raise RuntimeError('it is broken')\n"
# Tells that it is being imported, and goes on when a file appears.
SLOW = """\
import os, select, sys
here = os.path.dirname(os.path.dirname(__file__))
open(os.path.join(here, "importing"), "w").close()
while not os.path.exists(os.path.join(here, "go on")):
    select.select([], [], [], 0.01)
sys.path.remove(here)
del sys.modules["mcp_types"]
import mcp_types
"""


@pytest.fixture
def staged(place, tmp_path):
    """Serves with a package in the place of one of the SDK's: `staged(text)` gives the place, and its folder."""

    def stage(text):
        folder = tmp_path / "packages"
        (folder / "mcp_types").mkdir(parents=True)
        (folder / "mcp_types" / "__init__.py").write_text(text)
        path = os.pathsep.join(filter(None, [str(folder), place.env.get("PYTHONPATH")]))
        return replace(place, env={**place.env, "PYTHONPATH": path}), folder

    return stage


def test_a_session_that_lists_and_calls_never_loads_the_sdk(staged):
    place, _ = staged(BROKEN)
    place.write("a.txt", "one\n")
    with place.stdio() as client:
        assert client.request("tools/list")["result"]["tools"]
        assert client.request("resources/list")["result"]["resources"][0]["name"] == "a.txt"
        assert client.call("Read", file_path="a.txt")["result"]["structuredContent"]["total_lines"] == 1
        assert client.call("Bash", command="echo hi")["result"]["structuredContent"]["stdout"] == "hi\n"
        assert expect_error(client.call("Read", file_path="/etc/passwd"))["code"] == -32001
        assert client.request("ping")["result"] == {}
    assert [event.tool for event in place.events()] == ["resources/list", "Read", "Bash", "Read"]


def test_who_needs_an_sdk_that_cannot_be_loaded_is_told_why_and_everybody_else_is_served(staged):
    place, _ = staged(BROKEN)
    with place.stdio() as client:
        errors = [client.request(method)["error"] for method in ("prompts/list", "no/such/method")]
        client.notify("notifications/initialized", {"_meta": 3})
        client.send_bytes(b"nonsense")
        refused = client.receive()["error"]
        assert client.request("tools/list")["result"]["tools"]
        assert expect_result(client.call("LS"))
    assert {error["code"] for error in errors} == {-32000}
    assert errors[0]["message"] == (
        "The MCP SDK cannot be loaded (RuntimeError: it is broken). Reinstall Toolyard and start it again."
    )
    assert refused["code"] == -32700


def test_a_question_that_cannot_be_put_for_want_of_the_sdk_fails_the_call_alone(staged):
    place, _ = staged(BROKEN)
    place.write("a.txt", "one\n")
    with place.stdio("--permission-mode", "default", capabilities={"elicitation": {}}) as client:
        error = expect_error(client.call("Write", file_path="b.txt", content="new"))
        assert expect_result(client.call("Read", file_path="a.txt"))
    assert "The MCP SDK cannot be loaded" in error["message"]
    assert not os.path.exists(os.path.join(place.workspace, "b.txt"))


def test_while_it_is_loaded_the_client_is_answered_and_then_by_both(staged, wait_until):
    place, folder = staged(SLOW)
    with place.stdio(modern=True) as client:
        found = client.request("server/discover")
        wait_until((folder / "importing").exists)
        listed = client.request("tools/list")
        called = client.send_request("tools/call", {"name": "LS", "arguments": {}})
        (folder / "go on").touch()
        assert expect_result(client.wait_for_response(called))
        assert "result" in found
        assert client.request("tools/list")["result"] == listed["result"]


def test_a_call_of_the_sdk_is_cancelled_though_the_client_was_greeted_without_it(place, wait_until, children):
    with place.stdio(modern=True) as client:
        client.request("server/discover")
        called = client.send_request("tools/call", {"name": "Grep", "arguments": place.endless()})
        wait_until(lambda: "rg" in children(client.process.pid))
        client.notify("notifications/cancelled", {"requestId": called})
        wait_until(lambda: "rg" not in children(client.process.pid))


def test_lines_that_wait_for_the_sdk_are_answered_in_order_though_the_input_has_ended(staged, wait_until):
    place, folder = staged(SLOW)
    client = place.stdio()
    sent = [client.send_request(method, {}) for method in ("no/such/method", "ping", "tools/list", "prompts/list")]
    wait_until((folder / "importing").exists)
    assert client.process.stdin is not None
    client.process.stdin.close()
    (folder / "go on").touch()
    assert client.process.stdout is not None
    answers = [json.loads(line)["id"] for line in client.process.stdout]
    assert sorted(answers) == sent
    assert client.process.wait(DEADLINE_SECONDS) == 0
    client.process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_while_it_loads(staged, wait_until, number):
    place, folder = staged(SLOW)
    client: StdioClient = place.stdio()
    try:
        client.send_request("prompts/list", {})
        wait_until((folder / "importing").exists)
        client.process.send_signal(number)
        assert client.process.wait(DEADLINE_SECONDS) == 0
        assert client.process.stdout is not None
        assert client.process.stdout.read() == b""
    finally:
        client.close()


def test_the_end_of_input_ends_the_server_while_it_loads_for_nobody(staged, wait_until):
    place, folder = staged(SLOW)
    client = place.stdio(modern=True)
    client.request("server/discover")
    wait_until((folder / "importing").exists)
    assert client.close() == 0
    assert not (folder / "go on").exists()
