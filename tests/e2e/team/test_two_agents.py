"""Two agents behind different clients work on one project: by one folder, or by what each shares with the other."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

CLAUDE = ("--output-format", "stream-json", "--verbose", "--permission-mode", "dontAsk")
CLAUDE += ("--tools", "", "--allowedTools", "mcp__toolyard")
GEMINI = ("-m", "gemini-2.5-flash", "-o", "stream-json", "--skip-trust", "--allowed-mcp-server-names", "toolyard")
APART = """
toolyard: {workspace: team}
agents:
  - {id: gemini_agent, backend: {type: gemini}}
  - {id: claude_agent, backend: {type: claude_code}, memory: {allow_read_from: [gemini_agent]}}
"""
TOGETHER = """
agents:
  - {id: gemini_agent, backend: {type: gemini, cwd: shared_workspace}}
  - {id: claude_agent, backend: {type: claude_code, cwd: shared_workspace, permission_mode: bypassPermissions}}
"""

# Clients end their servers within half a second, which a busy machine may need for more than the last snapshot.
PUBLISHED = "until grep -q '{}' shared/{}/app.py; do sleep 0.1; done"


class Pair:
    """Both clients, attached to one configuration. A run gives what its model was shown of each call."""

    def __init__(self, yard, config: str, clients: tuple[Any, Any], models: tuple[Any, Any]) -> None:
        self.yard = yard
        self.config = yard.base / "team.yaml"
        self.config.write_text(config)
        self._claude, self._gemini = clients
        self._anthropic, self._gemini_model = models
        self._is_attached: set[str] = set()

    def command(self, *words: str) -> list[str]:
        return [self.yard.command()[0], *words, "--config", str(self.config), "--state", str(self.yard.state)]

    def json(self, *words: str) -> Any:
        ended = subprocess.run(
            self.command(*words, "--json"), capture_output=True, text=True, timeout=60, check=False
        )
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    def _serve(self, agent: str) -> list[str]:
        return self.command("mcp", "--agent", agent, "--tools", "claude,workspace")

    def claude(self, *steps: tuple[str, dict[str, Any]]) -> list[str]:
        model = self._anthropic(*steps)
        with model.serving() as url:
            if "claude" not in self._is_attached:
                added = self._claude(url, "mcp", "add", "toolyard", "--", *self._serve("claude_agent"))
                assert added.returncode == 0, added.stderr
                self._is_attached.add("claude")
            run = self._claude(url, "-p", "go", *CLAUDE)
        assert run.returncode == 0, run.stdout + run.stderr
        return [json.dumps(result["content"], ensure_ascii=False) for result in model.shown]

    def gemini(self, *steps: tuple[str, dict[str, Any]]) -> list[str]:
        model = self._gemini_model(*steps)
        with model.serving() as url:
            if "gemini" not in self._is_attached:
                serve = self._serve("gemini_agent")
                added = self._gemini(url, "mcp", "add", "--scope", "user", "toolyard", *serve)
                assert added.returncode == 0, added.stderr
                self._is_attached.add("gemini")
            run = self._gemini(url, "-p", "go", *GEMINI)
        assert run.returncode == 0, run.stdout + run.stderr
        return [json.dumps(result, ensure_ascii=False) for result in model.shown]


@pytest.fixture
def pair(yard, claude, gemini, anthropic, gemini_model):
    return lambda config: Pair(yard, config, (claude, gemini), (anthropic, gemini_model))


def test_what_one_agent_makes_the_other_sees_merges_and_remembers(pair):
    team = pair(APART)
    root = team.yard.base / "team"
    made = team.gemini(
        ("Write", {"file_path": "app.py", "content": "def greet():\n    return 'hello'\n"}),
        ("Bash", {"command": "mkdir -p docs && echo 'How to greet' > docs/guide.md"}),
        ("memory_remember", {"text": "The greeting has to be short", "topic": "style"}),
        ("Bash", {"command": PUBLISHED.format("hello", "gemini_agent")}),
    )
    assert "Created app.py" in made[0]
    seen = team.claude(
        ("shared_list", {}),
        ("Read", {"file_path": "shared/gemini_agent/app.py"}),
        ("Bash", {"command": "cat shared/gemini_agent/docs/guide.md; echo x > shared/gemini_agent/app.py"}),
        ("memory_search", {"query": "how long is the greeting"}),
        ("shared_merge", {"peer": "gemini_agent", "paths": ["app.py"]}),
        ("Edit", {"file_path": "app.py", "old_string": "hello", "new_string": "good morning"}),
        ("Bash", {"command": PUBLISHED.format("good morning", "claude_agent")}),
    )
    listed, read, shell, remembered, merged, edited, _ = seen
    assert "gemini_agent: shared/gemini_agent" in listed
    assert "return 'hello'" in read
    assert "How to greet" in shell
    assert "Read-only file system" in shell
    assert "The greeting has to be short" in remembered
    assert "app.py" in merged
    assert "Edited app.py: 1 replacement." in edited
    assert (root / "agents/claude_agent/workspace/app.py").read_text() == "def greet():\n    return 'good morning'\n"
    assert (root / "agents/gemini_agent/workspace/app.py").read_text() == "def greet():\n    return 'hello'\n"
    # And back: the first agent is told, and takes the change over.
    back = team.gemini(
        ("Bash", {"command": "cat shared/claude_agent/app.py"}),
        ("memory_search", {"query": "greeting", "agent": "claude_agent"}),
        ("shared_merge", {"peer": "claude_agent", "paths": ["**"]}),
    )
    assert "good morning" in back[0]
    assert "may not read the memory of 'claude_agent'" in back[1]
    assert (root / "agents/gemini_agent/workspace/app.py").read_text() == "def greet():\n    return 'good morning'\n"
    assert (root / "agents/gemini_agent/workspace/docs/guide.md").read_text() == "How to greet\n"
    for agent in ("gemini_agent", "claude_agent"):
        assert team.json("snapshot", "list", "--agent", agent)


def test_two_agents_of_one_folder_work_on_the_same_files(pair):
    team = pair(TOGETHER)
    (team.yard.base / "shared_workspace").mkdir()
    team.gemini(("Write", {"file_path": "app.py", "content": "def greet():\n    return 'hello'\n"}))
    read, _ = team.claude(
        ("Read", {"file_path": "app.py"}),
        ("Edit", {"file_path": "app.py", "old_string": "hello", "new_string": "good morning"}),
    )
    assert "return 'hello'" in read
    (again,) = team.gemini(("Read", {"file_path": "app.py"}))
    assert "good morning" in again
    taken = team.json("snapshot", "list", "--agent", "claude_agent")
    assert len(taken) >= 2
