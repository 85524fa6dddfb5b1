"""`toolyard skill show` says where a skill came from."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from toolyard.cli.main import toolyard
from toolyard.files.roots import Root
from toolyard.skills import Skill, promote, save


def test_who_saved_a_skill_and_what_it_was_promoted_from_is_shown(tmp_path: Path) -> None:
    workspace = tmp_path.resolve() / "ws"
    workspace.mkdir()
    root = Root(str(workspace))
    save(root, "agent_a", Skill("add_up", "def add(a, b):\n    return a + b\n", "Adds two numbers."))
    promote(root, "agent_a", "add_up")
    root.close()

    where = ["--workspace", str(workspace), "--state", str(tmp_path / "state")]
    ran = CliRunner().invoke(toolyard, ["skill", "show", "community/add_up", *where], catch_exceptions=False)

    said = {line[2:16].strip(): line[16:] for line in ran.output.splitlines() if line.startswith("  ")}
    assert (ran.exit_code, said["saved by"]) == (0, "agent_a")
    assert said["promoted from"].startswith("agent_a/add_up@")
    assert said["saved at"]
