"""What works in an empty folder right after `toolyard init`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import ran_with
from toolyard.testing.mcp_client import StdioClient


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which only `toolyard init` was run."""
    folder = tmp_path / "empty"
    folder.mkdir()
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "TMPDIR"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("GEMINI_API_KEY", "not-a-key")
    monkeypatch.chdir(folder)
    ran_with(["init", "--backend", "gemini"], code=0)
    assert os.listdir(folder) == ["toolyard.yaml"]
    return folder


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("audit", 0),
        ("audit --verify", 2),  # a log that is missing was perhaps removed
        ("exec -c 1+1", 0),
        ("search issue", 1),  # nothing is found
        ("tools list", 0),
        ("memory list", 0),
        ("skill list", 0),
        ("snapshot list", 0),
        ("snapshot create", 0),
        ("threads list", 0),
        ("sync", 0),
        ("doctor", 0),
        ("demo", 0),
        ("run --check toolyard.yaml", 0),
        ("run --list", 0),
    ],
)
def test_the_first_commands_after_init_work(started: Path, words: str, code: int) -> None:
    ran_with(words.split(), code=code)


def test_the_first_server_after_init_serves_the_agents_folder(started: Path) -> None:
    with StdioClient([sys.executable, "-m", "toolyard", "mcp"], cwd=str(started)) as client:
        answer = client.call("Write", file_path="notes.md", content="one\n")

    assert "error" not in answer
    assert not answer["result"].get("isError")
    assert (started / "project" / "notes.md").read_text() == "one\n"


def test_a_configuration_that_is_found_makes_no_folder_outside_its_own(started: Path) -> None:
    (started / "toolyard.yaml").write_text("toolyard: {workspace: ../elsewhere}\n")

    ran_with(["audit"], code=2)

    assert not (started.parent / "elsewhere").exists()


def test_the_demo_ignores_the_configuration_of_the_current_folder(started: Path) -> None:
    (started / "toolyard.yaml").write_text(json.dumps({"permissions": {"mode": "plan"}}))

    ran_with(["demo"], code=0)
