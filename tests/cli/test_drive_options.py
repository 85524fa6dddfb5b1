"""What `toolyard drive` is told on its command line, on its way to the run."""

from __future__ import annotations

import importlib

import pytest
from click.testing import CliRunner

from toolyard.app.toolsets import Toolset
from toolyard.cli.main import toolyard
from toolyard.core.errors import SystemFault
from toolyard.core.permission_modes import PermissionMode

module = importlib.import_module("toolyard.cli.drive.command")


@pytest.fixture
def driven(tmp_path, monkeypatch):
    """Hand words to the command; what it makes of them."""

    def run(*words: str) -> dict[str, object]:
        seen: dict[str, object] = {}

        def start(cli, prompt, **options):
            seen.update(options, cli=cli, prompt=prompt)
            raise SystemFault("that is enough")

        monkeypatch.setattr(module, "driven", start)
        done = CliRunner().invoke(toolyard, ["drive", *words])
        assert seen, done.output
        return seen

    return run


def test_all_that_is_said_reaches_the_run(driven, tmp_path):
    config = tmp_path / "toolyard.yaml"
    config.write_text("agents:\n  - id: ada\n  - id: bob\n")
    seen = driven(
        *("codex", "do it", "--workspace", str(tmp_path), "--model", "m", "--permission-mode", "plan"),
        *("--tools", "reference", "--timeout", "7.5", "--instructions", "be brief"),
        *("--agent", "bob", "--config", str(config), "--state", str(tmp_path / "state")),
    )
    seen.pop("ask")
    assert [agent.id for agent in seen.pop("config").agents] == ["ada", "bob"]
    assert seen == {
        "cli": "codex",
        "prompt": "do it",
        "workspace": str(tmp_path),
        "model": "m",
        "timeout": 7.5,
        "mode": PermissionMode.PLAN,
        "tools": Toolset.REFERENCE,
        "instructions": "be brief",
        "agent": "bob",
        "state": str(tmp_path / "state"),
    }


def test_what_is_left_out_is_left_to_the_run(driven, tmp_path):
    seen = driven("gemini", "do it", "--workspace", str(tmp_path))
    left_out = {name: seen[name] for name in ("model", "mode", "instructions", "agent", "state", "timeout", "tools")}
    assert left_out == {
        "model": "",
        "mode": None,
        "instructions": "",
        "agent": None,
        "state": None,
        "timeout": 1800.0,
        "tools": Toolset.CLAUDE,
    }
