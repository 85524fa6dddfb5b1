"""A configuration with one real server and one custom tool, and the command line run in this process."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from toolyard.cli.main import toolyard
from toolyard.core.errors import ToolyardError

SERVER = [sys.executable, "-m", "toolyard.testing.mock_mcp_server"]
SHOP = '''
def price_of(part: str, count: int = 1) -> float:
    """What a number of parts costs."""
    return {"bolt": 0.5, "nut": 0.25}[part] * count
'''


def ran_with(
    words: Sequence[str], *, code: int, typed: str | None = None, color: bool = False, only: str = "output"
) -> str:
    """What the program says on both streams, or on `only` one of them, when it ends with that exit code."""
    ran = CliRunner().invoke(toolyard, words, color=color, input=typed)
    ended, said = ran.exit_code, str(getattr(ran, only))
    if isinstance(ran.exception, ToolyardError):  # which the program's entry point prints
        ended = 2 if ran.exception.kind in {"config", "validation"} else 1
        said += str(ran.exception)
    elif ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    assert ended == code, said
    return said


class Attached:
    """Runs commands on a configuration that a test may change."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.config = base / "team.yaml"
        self.state = base / "state"
        (base / "ws").mkdir()
        (base / "shop.py").write_text(SHOP)
        self.document: dict[str, Any] = {
            "toolyard": {
                "workspace": "ws",
                "available_mcp_servers": {"my-server": {"command": SERVER}},
                "available_custom_tools": [{"group": "shop", "path": "shop.py", "read_only": True}],
            }
        }

    def run(self, *words: str, code: int = 0, stdin: str = "") -> str:
        """What the command says on both streams."""
        self.config.write_text(json.dumps(self.document))
        where = ("--config", str(self.config), "--state", str(self.state))
        return ran_with([*words, *where], code=code, typed=stdin)

    def json(self, *words: str, code: int = 0, stdin: str = "") -> Any:
        self.config.write_text(json.dumps(self.document))
        where = ("--config", str(self.config), "--state", str(self.state))
        ran = CliRunner().invoke(toolyard, [*words, "--json", *where], input=stdin)
        assert ran.exit_code == code, ran.output
        return json.loads(ran.stdout)


class Place:
    """A folder of which `toolyard snapshot` keeps snapshots."""

    def __init__(self, base: Path) -> None:
        self.root = base / "ws"
        self.root.mkdir()
        self.state = base / "state"
        (self.root / "a.txt").write_text("one\ntwo\n")

    def run(
        self, *words: str, code: int = 0, color: bool = False, typed: str | None = None, only: str = "output"
    ) -> str:
        """What the command says on both streams, or on `only` one of them."""
        where = ("--workspace", str(self.root), "--state", str(self.state))
        return ran_with(["snapshot", *words, *where], code=code, color=color, typed=typed, only=only)

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", code=code, only="stdout"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def attached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Attached:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    return Attached(tmp_path.resolve())
