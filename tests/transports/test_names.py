"""Names that are not UTF-8 lie behind links; answers about them can still be sent, and the server goes on."""

import os
import sys

import pytest

from toolyard.testing.mcp_client import StdioClient, expect_error
from toolyard.transports.json_encoding import sendable_text

ODD = b"caf\xe9"


class Agreeing(StdioClient):
    """Says yes to every question and keeps what was asked."""

    def on_request(self, message):
        self.notifications.append(message)
        return {"result": {"action": "accept", "content": {"allow": True}}}


@pytest.fixture
def start(tmp_path):
    workspace = os.fsencode(tmp_path / "ws")
    os.makedirs(workspace + b"/.git/hooks/" + ODD)
    os.mkdir(workspace + b"/" + ODD)
    os.symlink(ODD, workspace + b"/plain")
    os.symlink(b".git/hooks/" + ODD, workspace + b"/hook")
    common = ["-m", "toolyard", "mcp", "--workspace", os.fsdecode(workspace), "--state", str(tmp_path / "state")]

    def client(*arguments, kind=StdioClient, **options):
        return kind([sys.executable, *common, *arguments], **options)

    return client


@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "modern"])
def test_a_refusal_that_names_such_a_file_is_sent(start, modern):
    with start(modern=modern) as client:
        refused = client.call("Write", file_path="hook/pre-commit", content="x")
        written = client.call("Write", file_path="plain/new.txt", content="x")

    assert expect_error(refused)["code"] == -32001
    assert "/.git/hooks/caf\\xe9/pre-commit" in expect_error(refused)["message"]
    assert written["result"]["structuredContent"]["path"] == "plain/new.txt"


def test_a_question_that_names_such_a_file_is_put(start):
    arguments = ("--permission-mode", "default")
    with start(*arguments, kind=Agreeing, capabilities={"elicitation": {}}) as client:
        written = client.call("Write", file_path="plain/new.txt", content="x")
        questions = [note["params"]["message"] for note in client.notifications if "id" in note]

    assert written["result"]["structuredContent"]["created"] is True
    assert "/caf\\xe9/new.txt" in questions[-1]


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("plain", "plain"),
        ("caf\u00e9 \u6f22\nnext", "caf\u00e9 \u6f22\nnext"),
        (os.fsdecode(ODD), "caf\\xe9"),
        ("\ud800", "\\ud800"),
    ],
)
def test_only_what_cannot_be_sent_is_escaped(text, sent):
    assert sendable_text(text) == sent
