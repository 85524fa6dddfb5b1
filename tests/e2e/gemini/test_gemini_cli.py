"""Gemini CLI with our tools: attached as documented, used by a scripted model, and what that model is shown."""

from __future__ import annotations

import base64
import json
import pathlib
import sys

import pytest

from tests.e2e import published

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
HEADLESS = ("-m", "gemini-2.5-flash", "-o", "stream-json", "--skip-trust", "--allowed-mcp-server-names", "toolyard")
TOKYO = """from servers.time import convert_time
converted = await convert_time(source_timezone="UTC", time="16:30", target_timezone="Asia/Tokyo")
converted["target"]["datetime"]"""
BOTH_HALVES = pathlib.Path(__file__).parents[1] / "both_halves.py"
NAMES = (
    *("Read", "Write", "Edit", "MultiEdit", "NotebookEdit"),
    *("Bash", "BashOutput", "KillShell", "Grep", "Glob", "LS"),
)
TOOLS = {f"mcp_toolyard_{name}" for name in NAMES}


def text(words: str) -> dict[str, str]:
    """Words as Gemini CLI hands them on: marked as somebody else's."""
    return {"output": f"<untrusted_context>\n{words}\n</untrusted_context>"}


@pytest.fixture
def attached(gemini):
    """Attach a server as the documentation says."""

    def attach(url: str, *arguments: str) -> None:
        added = gemini(url, "mcp", "add", "--scope", "user", *arguments)
        assert added.returncode == 0, added.stderr

    return attach


def test_the_model_writes_reads_and_edits_a_file_and_sees_readable_results(yard, gemini_model, gemini, attached):
    model = gemini_model(
        ("Write", {"file_path": "a.txt", "content": "one\ntwo\n"}),
        ("Read", {"file_path": "a.txt"}),
        ("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "ONE"}),
        ("Grep", {"pattern": "ONE"}),
    )
    with model.serving() as url:
        attached(url, "toolyard", *yard.command())
        run = gemini(url, "-p", "go", *HEADLESS)
    assert (run.returncode, json.loads(run.stdout.splitlines()[-1])["status"]) == (0, "success")
    assert (yard.workspace / "a.txt").read_text() == "ONE\ntwo\n"
    assert set(model.tools) >= TOOLS
    assert model.shown == [
        text("Created a.txt (2 lines, 8 bytes)."),
        text("     1\tone\n     2\ttwo"),
        text("Edited a.txt: 1 replacement.\n     1\tONE\n     2\ttwo"),
        text("a.txt"),
    ]


def test_the_model_sees_the_message_of_every_error_and_our_pictures(yard, gemini_model, gemini, attached):
    (yard.workspace / "dot.png").write_bytes(base64.b64decode(PNG))
    model = gemini_model(
        ("Read", {"file_path": "/etc/passwd"}),
        ("Read", {"file_path": "missing"}),
        ("Bash", {"command": "echo out; exit 3"}),
        ("Read", {"file_path": "dot.png"}),
    )
    with model.serving() as url:
        attached(url, "toolyard", *yard.command())
        gemini(url, "-p", "go", *HEADLESS)
    outside, missing, failed, picture = model.shown
    assert "Reading /etc/passwd is outside the workspace" in outside["error"]
    assert f"Use a path under {yard.workspace}." in outside["error"]
    assert f"No such file or folder: {yard.workspace}/missing." in missing["error"]
    assert "out\nExit code 3" in failed["error"].replace("\\n", "\n")
    assert picture["output"].startswith(text("image/png image, 1x1 pixels, 70 bytes")["output"])
    assert model.conversation.images == (("image/png", PNG),)


def test_over_http_the_token_stays_in_the_environment(yard, gemini_model, gemini, attached, token):
    (yard.workspace / "a.txt").write_text("one\n")
    model = gemini_model(("Read", {"file_path": "a.txt"}))
    header = "Authorization: Bearer $TOOLYARD_TOKEN"
    with model.serving() as url, yard.http() as address:
        attached(url, "--transport", "http", "--header", header, "toolyard", address)
        gemini(url, "-p", "go", *HEADLESS, TOOLYARD_TOKEN=token)
    assert model.shown == [text("     1\tone")]
    kept = [path for path in yard.home.rglob("*") if path.is_file() and token.encode() in path.read_bytes()]
    assert kept == []


def test_the_text_half_is_shown_and_the_structured_half_is_not(gemini_model, gemini, attached):
    """Why `serve.mcp.clients` sends this client both halves: it takes the readable one by itself."""
    model = gemini_model(("words", {}))
    with model.serving() as url:
        attached(url, "toolyard", sys.executable, str(BOTH_HALVES))
        gemini(url, "-p", "go", *HEADLESS)
    assert model.shown == [text("THE TEXT HALF")]


def test_of_the_reference_names_the_one_of_a_forbidden_builtin_is_lost(yard, gemini_model, gemini, attached):
    """Without a terminal Gemini CLI forbids its own `write_file` by name, and with it ours: see docs/clients.md."""
    model = gemini_model(("list_directory", {"path": "."}))
    with model.serving() as url:
        attached(url, "toolyard", *yard.command("--tools", "reference"))
        gemini(url, "-p", "go", *HEADLESS)
    ours = {name.removeprefix("mcp_toolyard_") for name in model.tools if name.startswith("mcp_toolyard_")}
    assert {"read_file", "edit_file", "list_directory"} <= ours
    assert "write_file" not in ours


def test_the_model_finds_a_tool_of_a_published_server_and_calls_it_from_code(yard, gemini_model, gemini, attached):
    config = yard.with_server("time", [published.python_server("mcp-server-time"), "--local-timezone", "UTC"])
    model = gemini_model(
        ("search_tools", {"query": "convert time between zones"}), ("execute_python", {"code": TOKYO})
    )
    with model.serving() as url:
        attached(url, "toolyard", *yard.command("--config", config, "--tools", "code"))
        gemini(url, "-p", "go", *HEADLESS)
    found, ran = model.shown
    assert "from servers.time import convert_time" in found["output"]
    assert "T01:30:00" in ran["output"]
