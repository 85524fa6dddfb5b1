"""What a run kept is found by the other commands, with the file that was run and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from toolyard.cli.main import toolyard
from toolyard.testing.mock_model import Call, Say, serve_model

FOLDER = "a folder of the user's"
CONFIGS = {
    "its own folder": "agent: {id: a, backend: {type: gemini, permission_mode: strict}}\n",
    FOLDER: "agent: {id: a, backend: {type: gemini, cwd: work}}\n",
    "a root that is named": "toolyard: {workspace: root}\nagent: {id: a, backend: {type: gemini, cwd: work}}\n",
}


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("GEMINI_API_KEY", "a-key")
    script = [Call("Write", {"file_path": "plan.md", "content": "# Plan\n"}), Say("Done.")]
    with serve_model(script) as server:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.gemini)
        yield lambda *words: CliRunner().invoke(toolyard, words, catch_exceptions=False).output


@pytest.mark.parametrize("where", CONFIGS)
def test_snapshots_and_the_record_are_where_the_configuration_leads(where, said, tmp_path: Path) -> None:
    Path("toolyard.yaml").write_text(CONFIGS[where])
    said("run", "toolyard.yaml", "Write a plan")
    (plan,) = tmp_path.rglob("plan.md")

    assert "answer of round 1" in said("snapshot", "list")
    assert str(plan) in said("audit", "--config", "toolyard.yaml")
    said("snapshot", "undo", "--config", "toolyard.yaml")
    assert not plan.exists()


def test_a_task_without_a_configuration_is_told_what_comes_first(said) -> None:
    assert "toolyard run CONFIG TASK" in said("run", "Write a plan")


def test_servers_that_were_asked_before_a_run_are_known_to_it(said) -> None:
    entry = f"{{name: upstream, command: {sys.executable}, args: [-m, toolyard.testing.mock_mcp_server]}}"
    Path("toolyard.yaml").write_text(
        f"toolyard: {{execution_mode: filesystem_first, available_mcp_servers: [{entry}]}}\n" + CONFIGS[FOLDER]
    )

    assert "upstream (never asked)" in said("run", "--check", "toolyard.yaml")
    said("sync", "--config", "toolyard.yaml")
    assert "upstream (never asked)" not in said("run", "--check", "toolyard.yaml")
