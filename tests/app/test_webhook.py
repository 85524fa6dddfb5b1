"""File operations and ends of background commands, posted to a program outside, which is a real HTTP server here."""

from __future__ import annotations

import http.server
import json
import socket
import threading
import time

import pytest

from toolyard.app import webhook
from toolyard.app.activity import ActivityEvent, LoggerName, Severity
from toolyard.app.webhook import Webhook
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.config.webhook import WebhookSection
from toolyard.core.calls import Call
from toolyard.core.errors import ConfigError, SecurityError, ToolError
from toolyard.storage.audit_reader import read

SECONDS = 20


class Platform(http.server.ThreadingHTTPServer):
    """Keeps what it is sent. `statuses` are answered in turn, then 204."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.changed = threading.Condition()
        self.bodies, self.headers, self.statuses, self.answers = [], [], [], {}

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/hook?key=in-the-url"

    @property
    def events(self):
        return [event for body in self.bodies for event in body["events"]]

    def wait_for(self, truth):
        with self.changed:
            assert self.changed.wait_for(truth, SECONDS)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.changed:
            status = self.server.statuses.pop(0) if self.server.statuses else 204
            self.server.headers.append(dict(self.headers))
            if status < 300:
                self.server.bodies.append(body)
            self.server.changed.notify_all()
        self.send_response(status)
        for name, value in self.server.answers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_):
        """Says nothing."""


@pytest.fixture
def platform():
    server = Platform()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def opened(tmp_path):
    def make(url, **more):
        (tmp_path / "ws").mkdir(exist_ok=True)
        config = Config.model_validate({"toolyard": {"webhook": {"url": url, **more}}})
        settings = Settings.from_environment({"HOME": str(tmp_path)})
        state = str(tmp_path / "state")
        return Yard.open(
            YardOptions(str(tmp_path / "ws"), config, settings=settings, agent="writer", state_home=state)
        )

    return make


def call(tool, **arguments):
    return Call(tool, arguments, "test", "writer", "the session")


async def test_a_platform_outside_gets_who_did_what_with_which_outcome(platform, opened, tmp_path):
    with opened(platform.url, token="the-secret") as yard:
        await yard.dispatch(call("Write", file_path="a.txt", content="a very private text"))
        await yard.dispatch(call("Read", file_path="a.txt"))
        with pytest.raises(SecurityError):
            await yard.dispatch(call("Read", file_path="/etc/forbidden.txt"))
        with pytest.raises(ToolError):
            await yard.dispatch(call("Read", file_path="missing.txt"))
        with pytest.raises(SecurityError):
            await yard.dispatch(call("Write", file_path="/etc/forbidden.txt", content="a very private text"))
        platform.wait_for(lambda: len(platform.events) == 2)

    written, denied = platform.events
    assert written.pop("time") <= denied["time"]
    assert written.pop("snapshot")
    assert written == {
        "event": "file_operation",
        "agent": "writer",
        "session": "the session",
        "tool": "Write",
        "outcome": "ok",
        "paths": [str(tmp_path / "ws" / "a.txt")],
        "changes_files": True,
    }
    assert (denied["outcome"], denied["paths"]) == ("denied", ["/etc/forbidden.txt"])
    assert "private" not in json.dumps(platform.bodies)
    assert {each["Authorization"] for each in platform.headers} == {"Bearer the-secret"}


async def test_the_end_of_a_background_command_is_posted(platform, opened):
    with opened(platform.url) as yard:
        await yard.dispatch(call("Bash", command="exit 3", run_in_background=True))
        platform.wait_for(lambda: any(each["event"] == "command_ended" for each in platform.events))
    ended = next(each for each in platform.events if each["event"] == "command_ended")
    assert (ended["agent"], ended["session"], ended["exit_code"]) == ("writer", "the session", 3)


async def test_reading_is_posted_where_it_is_wanted(platform, opened):
    with opened(platform.url, reads=True) as yard:
        await yard.dispatch(call("LS", path="."))
        platform.wait_for(lambda: platform.events)
    assert [each["tool"] for each in platform.events] == ["LS"]


async def test_what_waits_is_posted_before_the_workspace_closes(platform, opened):
    with opened(platform.url) as yard:
        await yard.dispatch(call("Write", file_path="a.txt", content="1"))
    assert [each["tool"] for each in platform.events] == ["Write"]


async def test_a_call_does_not_wait_for_a_platform_that_never_answers(opened, monkeypatch):
    monkeypatch.setattr(webhook, "_POST_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with opened(f"http://127.0.0.1:{silent.getsockname()[1]}/") as yard:
            for number in range(20):
                await yard.dispatch(call("Write", file_path=f"{number}.txt", content="1"))
            assert time.monotonic() - began < webhook._POST_SECONDS * 15
        assert time.monotonic() - began < SECONDS


async def test_a_failure_is_recorded_once_without_the_secret_and_what_was_lost_is_counted(
    platform, opened, monkeypatch
):
    monkeypatch.setattr(webhook, "_PAUSE_SECONDS", 0.01)
    platform.statuses += [500] * 6
    with opened(platform.url, token="the-secret") as yard:
        for number in range(2):
            await yard.dispatch(call("Write", file_path=f"{number}.txt", content="1"))
            platform.wait_for(lambda number=number: len(platform.headers) >= 3 * (number + 1))
        await yard.dispatch(call("Write", file_path="last.txt", content="1"))
        platform.wait_for(lambda: platform.events)
        state = yard.state

    faults = [each.event.reason for each in read(state) if each.event.tool == "webhook"]
    assert faults == ["The webhook at 127.0.0.1 does not get file operations: it answered with status 500."]
    assert [body["dropped"] for body in platform.bodies] == [2]


async def test_a_redirect_is_not_followed(platform, opened, monkeypatch):
    monkeypatch.setattr(webhook, "_PAUSE_SECONDS", 0.01)
    platform.statuses += [307] * 3
    platform.answers["Location"] = platform.url
    with opened(platform.url) as yard:
        await yard.dispatch(call("Write", file_path="a.txt", content="1"))
        platform.wait_for(lambda: len(platform.headers) == 3)
    assert platform.bodies == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://example.com/hook", "neither a public host over https nor this machine"),
        ("https://10.0.0.8/hook", "neither a public host"),
        ("https://169.254.169.254/latest", "neither a public host"),
        ("https://[::ffff:10.0.0.8]/hook", "neither a public host"),
        ("https://hooks.internal/hook", "neither a public host"),
        ("http://0.0.0.0/hook", "neither a public host"),
        ("ftp://127.0.0.1/hook", "neither a public host"),
        ("https://user:the-secret@example.com/", "holds a user name"),
        ("https://[hook", "is not a URL"),
        ("https://example.com:port/", "is not a URL"),
    ],
)
def test_an_address_that_could_lead_inside_is_refused_when_the_workspace_opens(opened, url, said):
    with pytest.raises(ConfigError) as caught:
        opened(url)
    assert said in str(caught.value)
    assert "the-secret" not in str(caught.value)


def test_a_public_name_that_leads_inside_gets_nothing(platform, monkeypatch):
    told = []
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.8", 0))]
    monkeypatch.setattr(webhook.socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(webhook, "_PAUSE_SECONDS", 0.01)
    hook = Webhook(WebhookSection(url="https://hooks.example.com/"), told.append)
    hook.enqueue(ActivityEvent(LoggerName.FILES, Severity.INFO, {"event": "file_operation"}))
    hook.close()
    assert told == [
        "The webhook at hooks.example.com does not get file operations: its name resolves to a private network."
    ]


def test_a_proxy_that_cannot_be_used_is_recorded_without_its_address(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "gopher://me:hunter2@127.0.0.1:1")
    said = []
    with Webhook(WebhookSection(url="https://hooks.example.com/x"), said.append) as hook:
        hook.enqueue(ActivityEvent(LoggerName.FILES, Severity.INFO, {}))
    (text,) = said
    assert text.startswith("The webhook at hooks.example.com does not get file operations: the proxy that")
    assert "127.0.0.1" not in text
    assert "hunter2" not in text


def test_the_queue_is_bounded_and_what_finds_no_room_is_counted(platform, monkeypatch):
    monkeypatch.setattr(webhook, "_MAX_QUEUED", 5)
    monkeypatch.setattr(threading.Thread, "start", lambda _: None)
    hook = Webhook(WebhookSection(url=platform.url), lambda _: None)
    for number in range(8):
        hook.enqueue(ActivityEvent(LoggerName.FILES, Severity.INFO, {"number": number}))
    assert (len(hook._queue), hook._dropped) == (5, 3)


def test_the_token_is_not_shown():
    assert "the-secret" not in repr(WebhookSection(url="http://127.0.0.1/", token="the-secret"))
