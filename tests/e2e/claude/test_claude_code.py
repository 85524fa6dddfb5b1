"""Claude Code with our tools: attached as documented, used by a scripted model, and what that model is shown."""

from __future__ import annotations

import base64
import json
import pathlib
import sys

import pytest

from tests.e2e import published

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
HEADLESS = ("--output-format", "stream-json", "--verbose", "--permission-mode", "dontAsk")
ONLY_OURS = ("--tools", "", "--allowedTools", "mcp__toolyard")
NAMES = (
    *("Read", "Write", "Edit", "MultiEdit", "NotebookEdit"),
    *("Bash", "BashOutput", "KillShell", "Grep", "Glob", "LS"),
)
TOOLS = {f"mcp__toolyard__{name}" for name in NAMES}
TOKYO = """from servers.time import convert_time
converted = await convert_time(source_timezone="UTC", time="16:30", target_timezone="Asia/Tokyo")
converted["target"]["datetime"]"""
BOTH_HALVES = pathlib.Path(__file__).parents[1] / "both_halves.py"


def text(words: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": words}]


def content(shown: list[dict[str, object]]) -> list[object]:
    return [result["content"] for result in shown]


def ending(stdout: str) -> dict[str, object]:
    """The last event of a run."""
    return json.loads(stdout.splitlines()[-1])


@pytest.fixture
def attached(claude, yard):
    """Attach a server as the documentation says."""

    def attach(url: str, *arguments: str) -> None:
        added = claude(url, "mcp", "add", *arguments)
        assert added.returncode == 0, added.stderr
        listed = claude(url, "mcp", "list", TOOLYARD_TOKEN="the-token-of-the-tests")
        assert "Connected" in listed.stdout, listed.stdout

    return attach


def test_the_model_writes_reads_and_edits_a_file_and_sees_readable_results(yard, anthropic, claude, attached):
    model = anthropic(
        ("Write", {"file_path": "a.txt", "content": "one\ntwo\n"}),
        ("Read", {"file_path": "a.txt"}),
        ("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "ONE"}),
        ("Grep", {"pattern": "ONE"}),
    )
    with model.serving() as url:
        attached(url, "toolyard", "--", *yard.command())
        run = claude(url, "-p", "go", *HEADLESS, *ONLY_OURS)
    assert (run.returncode, ending(run.stdout)["is_error"]) == (0, False)
    assert (yard.workspace / "a.txt").read_text() == "ONE\ntwo\n"
    assert content(model.shown) == [
        text("Created a.txt (2 lines, 8 bytes)."),
        text("     1\tone\n     2\ttwo"),
        text("Edited a.txt: 1 replacement.\n     1\tONE\n     2\ttwo"),
        text("a.txt"),
    ]


def test_our_tools_stand_beside_the_builtins_of_the_same_name(yard, anthropic, claude, attached):
    model = anthropic(("LS", {}))
    with model.serving() as url:
        attached(url, "toolyard", "--", *yard.command())
        claude(url, "-p", "go", *HEADLESS, "--allowedTools", "mcp__toolyard")
    assert {"Read", "Write", "Edit", "Bash"} | TOOLS <= set(model.tools)


def test_the_model_sees_the_message_of_every_error(yard, anthropic, claude, attached):
    model = anthropic(
        ("Read", {"file_path": "/etc/passwd"}),
        ("Read", {"file_path": 3}),
        ("Read", {"file_path": "missing"}),
        ("Bash", {"command": "echo out; exit 3"}),
    )
    with model.serving() as url:
        attached(url, "toolyard", "--", *yard.command())
        claude(url, "-p", "go", *HEADLESS, *ONLY_OURS)
    outside, wrong, missing, failed = content(model.shown)
    assert all(result["is_error"] for result in model.shown)
    assert outside.startswith("Reading /etc/passwd is outside the workspace")
    assert outside.endswith(f"Use a path under {yard.workspace}.")
    assert wrong.startswith("Read cannot run with these arguments: file_path: ")
    assert missing.startswith(f"No such file or folder: {yard.workspace}/missing.")
    assert failed == "out\nExit code 3"


def test_the_model_sees_pictures(yard, anthropic, claude, attached):
    (yard.workspace / "dot.png").write_bytes(base64.b64decode(PNG))
    model = anthropic(("Read", {"file_path": "dot.png"}))
    with model.serving() as url:
        attached(url, "toolyard", "--", *yard.command())
        claude(url, "-p", "go", *HEADLESS, *ONLY_OURS)
    assert content(model.shown) == [[*text("image/png image, 1x1 pixels, 70 bytes"), IMAGE]]


def test_over_http_the_token_stays_in_the_environment(yard, anthropic, claude, attached, token):
    (yard.workspace / "a.txt").write_text("one\n")
    model = anthropic(("Read", {"file_path": "a.txt"}))
    header = "Authorization: Bearer ${TOOLYARD_TOKEN}"
    with model.serving() as url, yard.http() as address:
        attached(url, "--transport", "http", "toolyard", address, "--header", header)
        claude(url, "-p", "go", *HEADLESS, *ONLY_OURS, TOOLYARD_TOKEN=token)
    assert content(model.shown) == [text("     1\tone")]
    kept = [path for path in yard.home.rglob("*") if path.is_file() and token.encode() in path.read_bytes()]
    assert kept == []


def test_structured_content_takes_the_place_of_the_text_so_we_send_it_none(anthropic, claude, attached):
    """Why `serve.mcp.clients` leaves structured content out for this client. When this fails, it may stop."""
    model = anthropic(("words", {}), ("picture", {}))
    with model.serving() as url:
        attached(url, "toolyard", "--", sys.executable, str(BOTH_HALVES))
        claude(url, "-p", "go", *HEADLESS, *ONLY_OURS)
    structured = '{"half":"THE STRUCTURED HALF"}'
    assert content(model.shown) == [structured, [IMAGE, *text(structured)]]


def test_the_model_finds_a_tool_of_a_published_server_and_calls_it_from_code(yard, anthropic, claude, attached):
    config = yard.with_server("time", [published.python_server("mcp-server-time"), "--local-timezone", "UTC"])
    model = anthropic(("search_tools", {"query": "convert time between zones"}), ("execute_python", {"code": TOKYO}))
    with model.serving() as url:
        attached(url, "toolyard", "--", *yard.command("--config", config, "--tools", "code"))
        claude(url, "-p", "go", *HEADLESS, *ONLY_OURS)
    found, ran = content(model.shown)
    assert "from servers.time import convert_time" in found[0]["text"]
    assert "T01:30:00" in ran[0]["text"]
