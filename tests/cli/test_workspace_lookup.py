"""Commands about what was kept, given in a folder below the workspace that is meant."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.cli.common.resolve_workspace import resolve_workspace
from toolyard.cli.main import toolyard
from toolyard.core.errors import ConfigError

LOOKING = [
    *("snapshot list", "snapshot show", "snapshot restore latest", "snapshot gc", "memory list", "memory search x"),
    *("memory forget 1234", "skill list", "skill show x", "skill remove x", "share list"),
]


class Project:
    """A workspace below the user's home, with a folder in it where the user stands."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.folder, self.state = base / "home", base / "home/proj", base / "state"
        (self.folder / "src/deep").mkdir(parents=True)
        monkeypatch.setenv("HOME", str(self.home))
        self.stand = monkeypatch.chdir
        self.stand(self.folder)

    def run(self, words: str) -> Result:
        return CliRunner().invoke(toolyard, [*shlex.split(words), "--state", str(self.state)])

    def refusal(self, words: str) -> str:
        ran = self.run(words)
        assert isinstance(ran.exception, ConfigError), ran.output
        return str(ran.exception)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    return Project(tmp_path.resolve(), monkeypatch)


@pytest.mark.parametrize("words", LOOKING)
def test_who_looks_below_a_workspace_is_told_which_it_is(project: Project, words: str) -> None:
    assert project.run("snapshot create").exit_code == 0
    project.stand(project.folder / "src/deep")
    said = project.refusal(words)
    assert f"is inside the workspace {project.folder}" in said
    assert f"--workspace {project.folder}." in said


def test_what_the_refusal_says_works_and_nothing_was_made(project: Project) -> None:
    (project.folder / "a.txt").write_text("one")
    project.run("snapshot create")
    project.stand(project.folder / "src")
    project.refusal("snapshot list")
    assert len(list(project.state.iterdir())) == 1
    assert "There is no snapshot yet" in project.run("snapshot list --workspace .").output
    project.refusal("snapshot list")  # having looked makes it no workspace of its own
    (project.folder / "a.txt").unlink()
    assert project.run(f"snapshot restore latest --workspace {project.folder}").exit_code == 0
    assert (project.folder / "a.txt").read_text() == "one"


def test_a_memory_alone_makes_a_folder_a_workspace(project: Project) -> None:
    assert "lies in" not in project.run("memory add first").output
    project.stand(project.folder / "src")
    assert f"--workspace {project.folder}." in project.refusal("memory list")


def test_who_adds_below_a_workspace_is_told_once_and_has_it_then(project: Project) -> None:
    project.run("snapshot create")
    page = project.home / "pdf/SKILL.md"
    page.parent.mkdir()
    page.write_text("---\nname: pdf\ndescription: Fills forms.\n---\n")
    project.stand(project.folder / "src")
    for words in ("memory add second", f"skill import {page.parent}", "snapshot create"):
        ran = project.run(words)
        assert ran.exit_code == 0
        assert f"is inside the workspace {project.folder}. The data added here is separate" in ran.stderr
        assert "lies in" not in project.run(words).output
    for words in ("memory list", "skill list", "snapshot list"):
        assert project.run(words).exit_code == 0


def test_a_configuration_above_is_named(project: Project) -> None:
    (project.folder / "toolyard.yaml").write_text("ui: {display_type: simple}\n")
    project.stand(project.folder / "src")
    assert f"run it in {project.folder}." in project.refusal("snapshot list")


@pytest.mark.parametrize("is_found", [True, False], ids=["its file above", "its file elsewhere"])
def test_in_an_agents_own_folder_the_agent_is_named_too(project: Project, *, is_found: bool) -> None:
    place = project.folder / "toolyard.yaml" if is_found else project.home.parent / "team.yaml"
    place.write_text(f"toolyard: {{workspace: {project.folder}/ws}}\nagents: [{{id: ana}}, {{id: bo}}]\n")
    assert project.run(f"snapshot create --config {place} --agent ana").exit_code == 0
    project.stand(project.folder / "ws/agents/ana/workspace")
    way = f"run it in {project.folder}, with --agent ana." if is_found else "--config FILE --agent ana."
    for words in LOOKING:
        assert way in project.refusal(words)


def test_an_agent_that_nobody_knows_is_refused_with_who_is_meant(project: Project) -> None:
    for words in ("memory list", "memory search x", "memory forget 1234", "skill list", "snapshot list"):
        assert "pass that file with --config" in project.refusal(f"{words} --agent ana")
        assert project.run(f"{words} --agent agent").exception.__class__ is not ConfigError
    project.run("memory add tea --agent ana")
    for words in ("memory list", "skill list", "snapshot list", "snapshot restore latest"):
        assert 'Did you mean "ana"?' in project.refusal(f"{words} --agent anna")
        assert not isinstance(project.run(f"{words} --agent ana").exception, ConfigError)


def test_who_adds_for_an_agent_that_is_new_beside_others_is_told(project: Project) -> None:
    page = project.home / "pdf/SKILL.md"
    page.parent.mkdir()
    page.write_text("---\nname: pdf\ndescription: Fills forms.\n---\n")
    assert project.run("memory add tea --agent ana").stderr == ""  # nobody else is known
    for words in ("memory add tea --agent", f"skill import {page.parent} --agent", "snapshot create --agent"):
        told = project.run(f"{words} anna{len(words)}")
        assert (told.exit_code, told.stderr.splitlines()) == (
            0,
            [f'Agent anna{len(words)} is new here. Did you mean "ana"?'],
        )
        assert project.run(f"{words} ana").stderr == ""
        project.run(f"skill remove anna{len(words)}/pdf")
        shutil.rmtree(project.folder / f"agents/anna{len(words)}", ignore_errors=True)
        shutil.rmtree(project.folder / f"skills/anna{len(words)}", ignore_errors=True)


@pytest.mark.parametrize("agents", ["", "agents: [{id: ana}, {id: bo}]\n"])
@pytest.mark.parametrize("words", ["skill list", "exec --bash -c true", "memory list"])
def test_the_folder_that_a_found_file_names_is_made_when_it_is_needed(
    project: Project, words: str, agents: str
) -> None:
    (project.folder / "toolyard.yaml").write_text(f"toolyard: {{workspace: ws}}\n{agents}")

    ran = project.run(f"{words} --agent ana" if agents and words.startswith("exec") else words)

    assert (ran.exit_code, ran.exception) == (0, None)
    assert (project.folder / "ws").is_dir()


def test_an_agent_that_took_snapshots_alone_is_known_by_them(project: Project) -> None:
    project.run("snapshot create --agent bo")
    assert project.run("snapshot list --agent bo").exit_code == 0
    assert 'Did you mean "bo"?' in project.refusal("snapshot list --agent bob")


def test_the_users_home_is_no_workspace_around_everything(project: Project) -> None:
    project.stand(project.home)
    project.run("memory add everywhere")
    project.stand(project.folder)
    assert "There is no snapshot yet" in project.run("snapshot list").output


def test_a_skill_that_lies_somewhere_is_checked_from_anywhere(project: Project) -> None:
    project.run("snapshot create")
    project.stand(project.folder / "src")
    assert project.refusal("skill validate other")
    page = project.home / "pdf/SKILL.md"
    page.parent.mkdir()
    page.write_text("---\nname: pdf\ndescription: Fills forms.\n---\n")
    ran = project.run(f"skill validate {page.parent}")
    assert (ran.exit_code, "passes" in ran.output) == (0, True), ran.output


@pytest.mark.parametrize("is_linked", [True, False], ids=["with links", "without links"])
@pytest.mark.parametrize("below", ["", "src"])
def test_in_an_agents_folder_outside_the_root_the_configuration_is_named(
    project: Project, below: str, *, is_linked: bool
) -> None:
    config = _outside(project, is_linked=is_linked)
    (project.folder / "a/src").mkdir()
    project.stand(project.folder / "a" / below)
    for words in LOOKING:
        assert f"--config {config} --agent one." in project.refusal(words)
    ran = project.run("snapshot create")
    assert "The data added here is separate from it." in ran.stderr
    assert f"--config {config} --agent one." in ran.stderr


def test_links_alone_tell_whose_folder_it_is(project: Project) -> None:
    config = _outside(project, is_linked=True)
    shutil.rmtree(project.state)
    project.stand(project.folder / "a")
    assert "--config FILE --agent one." in project.refusal("snapshot list")
    config.unlink()
    assert project.run("snapshot create --workspace .").exit_code == 0
    assert project.run("snapshot list").exit_code == 0


def test_no_command_takes_our_links_for_files(project: Project) -> None:
    _outside(project, is_linked=False)
    folder = project.folder / "a"
    project.stand(folder)
    assert project.run("snapshot create").exit_code == 0  # before there are links
    project.stand(project.folder)
    _outside(project, is_linked=True)
    links = {path.name for path in folder.iterdir() if path.is_symlink()}
    assert links == {"servers", "tools", "skills", "memory", "tasks", "shared"}
    project.stand(folder)
    (folder / "new.txt").write_text("new")
    for words in ("snapshot undo --with-git", "snapshot restore latest~1", "snapshot restore latest~1 memory shared"):
        project.run(words)
        assert links == {path.name for path in folder.iterdir() if path.is_symlink()}, words
    assert "memory" not in project.run("snapshot show latest").stdout


def _outside(project: Project, *, is_linked: bool) -> Path:
    """A team with an agent that works outside the root and has taken a snapshot; with code mode it has links."""
    config = project.home.parent / "team.yaml"
    agent = f"{{id: one, backend: {{cwd: {project.folder}/a}}}}"
    config.write_text(f"toolyard: {{workspace: {project.folder}/ws}}\nagents: [{agent}, {{id: two}}]\n")
    if is_linked:
        place = resolve_workspace(None, str(config), "one")
        state = str(project.state)
        Yard.open(
            YardOptions(place.workspace, place.config, agent="one", toolset=Toolset.CODE, state_home=state)
        ).close()
    assert project.run(f"snapshot create --config {config} --agent one").exit_code == 0
    return config
