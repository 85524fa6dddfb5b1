"""`toolyard snapshot` in the folder of a team, without the team's configuration."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from toolyard.cli.main import toolyard
from toolyard.core.errors import ConfigError


class Team:
    def __init__(self, base: Path) -> None:
        self.state = base / "state"
        self.root = base / "ws"
        self.config = base / "team.yaml"
        self.config.write_text(f"toolyard: {{workspace: {self.root}}}\nagents: [{{id: one}}, {{id: two}}]\n")

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(toolyard, ["snapshot", *words, "--state", str(self.state)])


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    made = Team(tmp_path.resolve())
    assert made.run("create", "--config", str(made.config), "--agent", "one").exit_code == 0
    monkeypatch.chdir(made.root)
    return made


@pytest.mark.parametrize("words", [["list"], ["show"], ["diff"], ["undo"], ["restore", "latest"]], ids=" ".join)
def test_its_agents_are_named_with_the_way_to_their_snapshots(team: Team, words: list[str]) -> None:
    refused = team.run(*words).exception
    assert isinstance(refused, ConfigError)
    assert str(team.root) in refused.message
    assert "the folder of a team (one, two) and has no snapshots of its own" in refused.message
    assert "--config FILE --agent one." in refused.hint


def test_the_way_that_is_named_works(team: Team) -> None:
    ran = team.run("list", "--config", str(team.config), "--agent", "one")
    assert (ran.exit_code, "one: on demand" in ran.stdout) == (0, True)


def test_the_store_is_cared_for_and_the_folder_has_snapshots_once_one_is_taken(team: Team) -> None:
    for words in (["verify"], ["gc"], ["create"], ["list"]):
        ran = team.run(*words)
        assert (ran.exit_code, ran.exception) == (0, None), words
    assert "on demand" in ran.stdout
