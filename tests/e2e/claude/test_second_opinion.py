"""Claude Code with `toolyard assistant`, installed as documented: what its model asks for, and what it is shown."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess

import pytest

from tests.e2e.scripted import LITTLE, ScriptedModel
from toolyard.testing.mock_model import Call, Say, Turn, in_turns, serve_model

PREFIX = "mcp__toolyard-assistant__"
TOOLS = {PREFIX + name for name in ("chat", "thinkdeep", "analyze", "codereview", "debug", "precommit")}
ALONE = ("--allowedTools", "mcp__toolyard-assistant,ReadMcpResourceTool", "--permission-mode", "dontAsk")
KEY = "AIza-a-key-that-is-in-no-file"
PLANTED = "AKIA" + "QYLPMN5HFIQR7XYA"
MOST_CHARS = 50_000
"""Of a result of MCP. Of a longer one Claude Code 2.1 shows its model the beginning, and a file with the rest."""
CODE = "def split(amount, people):\n    return [amount // people] * people\n"
FOUND = {
    "summary": "It loses money.",
    "findings": [
        {
            "severity": "high",
            "category": "bug",
            "file": "cart.py",
            "line": line,
            "title": "The remainder is lost",
            "fix": "Use divmod.",
        }
        for line in (2, 40)
    ],
}


@pytest.fixture
def installed(claude, npm, yard):
    """Claude Code on the workspace with the assistant: `installed(model, **variables)` runs it once."""
    yard.run(
        [yard.command()[0], "install", "claude", "--assistant", "--workspace", str(yard.workspace)],
        yard.environment(npm, CLAUDE_CONFIG_DIR=str(yard.home / ".claude")),
    ).check_returncode()

    def run(model: ScriptedModel, **variables: str) -> None:
        with model.serving() as url:
            ended = claude(url, "-p", "go", *ALONE, **variables)
        assert ended.returncode == 0, ended.stdout + ended.stderr

    return run


def shown(model: ScriptedModel) -> list[str]:
    """The text of each result. There is nothing else in it."""
    texts: list[str] = []
    for result in model.shown:
        assert {part["type"] for part in result["content"]} == {"text"}
        texts.append("".join(part["text"] for part in result["content"]))
    return texts


def thread_of(text: str) -> str:
    found = re.search(r"## Continuation ID: (\w{32})", text)
    assert found is not None, text
    return found.group(1)


def git(yard, *words: str) -> None:
    subprocess.run(["git", *words], cwd=yard.workspace, check=True, capture_output=True)


def test_the_model_has_code_reviewed_and_goes_on_in_the_thread(yard, installed):
    (yard.workspace / "cart.py").write_text(CODE)
    model = ScriptedModel(
        (
            Call("codereview", {"files": ["cart.py"], "context": "Shares of a group."}),
            lambda request: Call(
                "chat", {"prompt": "How would you write it?", "continuation_id": thread_of(request.results[0])}
            ),
        ),
        PREFIX,
    )
    with serve_model(in_turns(Say(json.dumps(FOUND)), Say("With divmod.")), key=KEY) as opinion:
        installed(model, GEMINI_API_KEY=KEY, GOOGLE_GEMINI_BASE_URL=opinion.gemini)
        first, second = opinion.all_requests
    assert set(model.tools) >= TOOLS
    review, chat = shown(model)
    assert review.startswith(
        "It loses money.\n"
        "1. **high** (bug) cart.py:2: The remainder is lost\n"
        "   Fix: Use divmod.\n\n"
        "## Metadata\n"
        "- status: success\n"
        '- note: Left out: "The remainder is lost": cart.py has no line 40, only 2\n'
        "- model: google:gemini-2.5-pro\n"
    )
    assert "## Files Processed\n- cart.py\n" in review
    assert chat.startswith("With divmod.\n\n## Metadata\n")
    assert thread_of(chat) == thread_of(review)
    assert "2| " in "".join(first.user_texts)  # the lines, with their numbers
    assert second.turn == 1
    assert "How would you write it?" in second.user_texts[-1]


def test_a_planted_key_is_a_no_go_without_a_model_and_is_shown_to_none(yard, installed):
    git(yard, "init", "--quiet")
    (yard.workspace / "billing.py").write_text(f"AWS_KEY = {PLANTED!r}\n")
    git(yard, "add", "billing.py")
    model = ScriptedModel((Call("precommit", {"path": "."}),), PREFIX)
    installed(model, TOOLYARD_MODEL="google:gemini-2.5-pro")  # else Claude Code's own key would do
    (alone,) = shown(model)
    assert alone.startswith("Verdict: no-go\nchecks: no-go\nreview: none\n- secrets: billing.py:1 AWS Access Key\n")
    assert "There is no key for Gemini API. Set GEMINI_API_KEY" in alone
    with serve_model(Say('{"summary": "Fine.", "findings": []}')) as opinion:
        installed(model, GEMINI_API_KEY=KEY, GOOGLE_GEMINI_BASE_URL=opinion.gemini)
        (asked,) = opinion.all_requests
    (reviewed,) = shown(model)
    assert reviewed.startswith("Verdict: no-go\n")
    assert "Fine.\nNo findings." in reviewed
    assert "billing.py" in asked.user_texts[-1]
    assert PLANTED not in json.dumps(asked.body) + alone + reviewed


def test_of_a_long_answer_the_model_sees_as_much_as_it_can_and_where_the_rest_is(yard, installed):
    lines = [f"{number:05d} and so on, at length" for number in range(4_000)]
    model = ScriptedModel(
        (
            Call("chat", {"prompt": "Tell me everything."}),
            lambda request: Turn(
                calls=(
                    Call(
                        "ReadMcpResourceTool",
                        {"server": "toolyard-assistant", "uri": f"thread://{thread_of(request.results[0])}/1"},
                    ),
                ),
                usage=LITTLE,
            ),
        ),
        PREFIX,
    )
    with serve_model(Say("\n".join(lines))) as opinion:
        installed(model, GEMINI_API_KEY=KEY, GOOGLE_GEMINI_BASE_URL=opinion.gemini)
    answer, whole = model.words
    assert MOST_CHARS / 2 < len(answer) < MOST_CHARS
    assert answer.startswith(lines[0])
    assert lines[-1] in answer
    assert f"thread://{thread_of(answer)}/1" in answer
    (kept,) = re.findall(r"Full output saved to: (\S+)", whole)  # for Read, which the resource is too long for
    assert lines[2_000] in pathlib.Path(kept).read_text()


def test_the_key_reaches_the_server_and_is_in_no_file(yard, installed):
    model = ScriptedModel((Call("chat", {"prompt": "Why?"}),), PREFIX)
    with serve_model(Say("Because."), key=KEY) as opinion:
        installed(model, GEMINI_API_KEY=KEY, GOOGLE_GEMINI_BASE_URL=opinion.gemini)
    assert shown(model)[0].startswith("Because.")
    holding = [path for path in yard.base.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert holding == []
