"""Commands that are started in a folder that was deleted meanwhile, as a shell may still stand in one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = [
    ["exec", "-c", "1 + 1"],
    ["mcp"],
    ["init"],
    ["trust"],
    ["audit"],
    ["sync"],
    ["search", "weather"],
    ["tools", "list"],
    ["call", "disk.read_file"],
    ["memory", "list"],
    ["skill", "list"],
    ["snapshot", "list"],
    ["share", "list"],
    ["drive", "claude", "Do it."],
    ["doctor"],
    ["install", "cursor"],
]


def started_in_a_deleted_folder(words: list[str], tmp_path: Path) -> subprocess.CompletedProcess[str]:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    env = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    command = ["sh", "-c", script, "sh", str(gone), sys.executable, "-m", "toolyard", *words]
    return subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
    )


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_that_needs_the_current_folder_says_that_it_is_gone(words: list[str], tmp_path: Path) -> None:
    ended = started_in_a_deleted_folder(words, tmp_path)
    assert (ended.returncode, ended.stderr) == (
        2,
        "toolyard: The current folder no longer exists. Go to another one with `cd`, and run the command there.\n",
    )


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["exec", "--help"]], ids=" ".join)
def test_a_command_that_needs_no_folder_runs(words: list[str], tmp_path: Path) -> None:
    assert started_in_a_deleted_folder(words, tmp_path).returncode == 0
