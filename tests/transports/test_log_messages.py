"""What happens in the workspace, as log messages to clients that asked for them: both eras, stdio and HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
from datetime import datetime
from types import SimpleNamespace

import pytest
from mcp_types import SetLevelRequestParams

from toolyard.app.activity import Activity
from toolyard.sandbox.background_commands import BackgroundCommands
from toolyard.transports.mcp import log_messages
from toolyard.transports.mcp.log_messages import LogMessages
from toolyard.workspace.file_tool_detector import FilesystemToolDetector

LEVEL = "io.modelcontextprotocol/logLevel"


def logged(messages):
    """The log messages among what a client received."""
    return [each["params"] for each in messages if each.get("method") == "notifications/message"]


def next_log(client):
    """The next log message, which comes without a request."""
    while not (found := logged(client.notifications)):
        message = client.receive()
        assert "method" in message
        client.notifications.append(message)
    client.notifications.clear()
    return found[0]


def set_level(client, level):
    assert client.request("logging/setLevel", {"level": level})["result"] == {}
    client.notifications.clear()


def test_a_name_that_is_not_utf8_is_shown_with_escapes_and_ends_no_messages(place):
    folder = os.fsencode(place.workspace)
    os.mkdir(folder + b"/\xffnotes")
    os.symlink(b"\xffnotes", folder + b"/link")
    with place.stdio() as client:
        set_level(client, "info")
        client.call("Write", file_path="link/a.txt", content="x")
        assert next_log(client)["data"]["paths"][-1] == f"{place.workspace}/\\xffnotes/a.txt"
        client.call("Write", file_path="b.txt", content="x")
        assert next_log(client)["data"]["paths"] == [f"{place.workspace}/b.txt"]


def test_a_client_that_sets_a_level_hears_who_changed_what_with_which_outcome(place):
    with place.stdio("--agent", "writer") as client:
        assert client.initialize_response["result"]["capabilities"]["logging"] == {}
        set_level(client, "info")
        client.call("Write", file_path="a.txt", content="a very private text")
        first = next_log(client)
        client.call("Write", file_path="/etc/forbidden.txt", content="a very private text")
        denied = next_log(client)
        client.call("Edit", file_path="a.txt", old_string="absent", new_string="x")
        failed = next_log(client)

    session = next(event.session for event in place.events() if event.tool == "Write")
    data = first["data"]
    assert datetime.fromisoformat(data.pop("time")).utcoffset() is not None
    assert first == {
        "level": "info",
        "logger": "toolyard.files",
        "data": {
            "event": "file_operation",
            "agent": "writer",
            "session": session,
            "tool": "Write",
            "outcome": "ok",
            "paths": [os.path.join(place.workspace, "a.txt")],
            "changes_files": True,
            "snapshot": data["snapshot"],
        },
    }
    assert data["snapshot"]
    assert (denied["level"], denied["data"]["outcome"], denied["data"]["paths"]) == (
        *("warning", "denied"),
        ["/etc/forbidden.txt"],
    )
    assert (failed["level"], failed["data"]["tool"], failed["data"]["outcome"]) == ("warning", "Edit", "failed")
    assert "private" not in json.dumps([first, denied, failed])


def test_reading_is_logged_at_debug_alone(place):
    place.write("a.txt", "1")
    with place.stdio() as client:
        set_level(client, "info")
        client.call("Read", file_path="a.txt")
        client.request("ping")
        assert logged(client.notifications) == []
        set_level(client, "debug")
        client.call("Read", file_path="a.txt")
        heard = next_log(client)
    assert (heard["level"], heard["data"]["tool"], heard["data"]["changes_files"]) == ("debug", "Read", False)


def test_a_client_that_asked_for_nothing_gets_nothing(place, modern):
    with place.stdio(modern=modern) as client:
        client.call("Write", file_path="a.txt", content="1")
        client.call("Bash", command="echo 1 > b.txt")
        client.request("tools/list")
        assert client.notifications == []


def test_the_end_of_a_background_command_is_announced_while_nobody_calls_anything(place):
    with place.stdio("--agent", "writer") as client:
        set_level(client, "info")
        command = "until [ -e go ]; do sleep 0.05; done; exit 3"
        started = client.call("Bash", command=command, run_in_background=True)["result"]
        client.request("ping")
        client.notifications.clear()
        place.write("go", "")
        heard = next_log(client)
        after = client.call("Read", file_path="go")["result"]["content"]

    session = next(event.session for event in place.events() if event.tool == "Bash")
    data = heard["data"]
    assert datetime.fromisoformat(data.pop("time"))
    assert (heard["level"], heard["logger"]) == ("info", "toolyard.commands")
    assert data == {
        "event": "command_ended",
        "agent": "writer",
        "session": session,
        "shell_id": started["structuredContent"]["shell_id"],
        "ending": "finished",
        "exit_code": 3,
    }
    assert "ended with exit code 3" in after[-1]["text"]  # for the model, in the next result, as before


@pytest.mark.parametrize(("level", "tools"), [("debug", ["Write", "Read"]), ("info", ["Write"]), ("error", [])])
def test_in_the_later_era_a_request_that_names_a_level_gets_what_its_call_did(place, level, tools):
    with place.stdio(modern=True) as client:
        assert client.request("server/discover")["result"]["capabilities"]["logging"] == {}
        for tool, more in (("Write", {"content": "1"}), ("Read", {})):
            params = {"name": tool, "arguments": {"file_path": "a.txt", **more}, "_meta": {LEVEL: level}}
            assert not client.request("tools/call", params)["result"]["isError"]
        client.call("Write", file_path="b.txt", content="1")
        assert [each["data"]["tool"] for each in logged(client.notifications)] == tools


def test_in_the_later_era_over_http_the_message_is_in_the_stream_of_its_request(place, talk):
    with place.http() as server:
        session = talk(server, modern=True)
        arguments = {"file_path": "/etc/forbidden.txt", "content": "1"}
        answer = session.send("tools/call", {"name": "Write", "arguments": arguments, "_meta": {LEVEL: "warning"}})
    message, result = answer.messages
    assert (message["params"]["data"]["outcome"], result["result"]["isError"]) == ("denied", True)


def first_message(server, worker, platform) -> bytes:
    """The first log message that `platform` gets after `worker` has written a file."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=20)
    with contextlib.closing(connection):
        connection.request("GET", "/mcp", headers=dict([*server.usual(), *platform.headers()]))
        stream = connection.getresponse()
        assert platform.send("logging/setLevel", {"level": "info"}).message["result"] == {}
        worker.call("Write", file_path="a.txt", content="1")
        line = b""
        while not line.startswith(b"data: {"):
            line = stream.readline()
            assert line
    return line


def test_over_http_a_second_client_hears_what_the_first_does(place, talk):
    with place.http() as server:
        line = first_message(server, talk(server), talk(server))
    heard = json.loads(line[5:])["params"]["data"]
    recorded = next(event.session for event in place.events() if event.tool == "Write")
    assert (heard["tool"], heard["session"]) == ("Write", recorded)


def test_over_http_no_message_gives_away_the_session_of_another_client(place, talk):
    with place.http() as server:
        worker = talk(server)
        line = first_message(server, worker, talk(server))
    assert worker.session.encode() not in line


class Unread:
    """A connection whose client does not read until it is `released`."""

    def __init__(self):
        self.released = asyncio.Event()
        self.sent = []

    async def send_notification(self, notification, related=None):
        await self.released.wait()
        self.sent.append(notification.params)


async def test_what_a_client_does_not_read_is_bounded_and_it_is_told_how_much_was_dropped(monkeypatch):
    monkeypatch.setattr(log_messages, "_MAX_WAITING", 3)
    detector, session = FilesystemToolDetector(), Unread()
    messages = LogMessages(Activity(detector, BackgroundCommands(), "writer"), lambda _: "one")
    await messages.set_level(SimpleNamespace(session=session), SetLevelRequestParams(level="info"))
    for number in range(10):
        detector.notify_filesystem_operation("Write", {}, paths=[str(number)])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    session.released.set()
    async with asyncio.timeout(20):
        while not session.sent or session.sent[-1].logger == "toolyard.files":
            await asyncio.sleep(0)

    assert [each.data["paths"] for each in session.sent[:-1]] == [["0"], ["1"], ["2"], ["3"]]
    assert (session.sent[-1].logger, session.sent[-1].data) == ("toolyard", {"event": "dropped", "count": 6})


async def test_a_client_that_never_reads_is_given_up(monkeypatch):
    monkeypatch.setattr(log_messages, "_SEND_SECONDS", 0.01)
    detector, session = FilesystemToolDetector(), Unread()
    messages = LogMessages(Activity(detector, BackgroundCommands(), "writer"), lambda _: "one")
    await messages.set_level(SimpleNamespace(session=session), SetLevelRequestParams(level="info"))
    detector.notify_filesystem_operation("Write", {})
    async with asyncio.timeout(20):
        while messages._clients:
            await asyncio.sleep(0)
    session.released.set()
    detector.notify_filesystem_operation("Write", {})
    await asyncio.sleep(0)
    assert session.sent == []
