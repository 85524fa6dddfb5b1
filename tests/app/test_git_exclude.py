"""The links beside an agent's files do not get into the user's commits."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from toolyard.app.git_exclude import exclude_links
from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.cli.common.resolve_workspace import resolve_workspace

TEAM = "toolyard: {workspace: root}\nagents: [{id: ana, backend: {cwd: project}}, {id: bo}]\n"


def git(folder: Path, *words: str) -> str:
    plain = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    ran = subprocess.run(["git", *words], cwd=folder, env=plain, check=True, capture_output=True, text=True)
    return ran.stdout


def run(folder: Path, names: tuple[str, ...] = ("memory", "tools")) -> None:
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        exclude_links(handle, names)
    finally:
        os.close(handle)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", ".")
    return folder


@pytest.fixture
def file(repository: Path) -> Path:
    place = repository / ".git/info/exclude"
    place.parent.mkdir(exist_ok=True)
    place.write_text("*.secret")
    return place


def test_git_adds_the_users_files_and_not_our_links(repository: Path) -> None:
    (repository / "app.py").write_text("x = 1\n")
    config = repository.parent / "team.yaml"
    config.write_text(TEAM)
    place = resolve_workspace(None, str(config), "ana")
    for _ in range(2):
        options = YardOptions(
            workspace=place.workspace,
            config=place.config,
            agent="ana",
            toolset=Toolset.CODE,
            state_home=str(repository.parent / "state"),
        )
        with Yard.open(options):
            assert (repository / "memory").is_symlink()
    assert git(repository, "status", "--porcelain") == "?? app.py\n"
    assert (repository / ".git/info/exclude").read_text().count("/memory\n") == 1


def test_what_stands_in_the_file_is_left_and_nothing_is_added_twice(repository: Path, file: Path) -> None:
    run(repository)
    first = file.read_text()
    assert first.startswith("*.secret\n#")
    run(repository)
    assert file.read_text() == first
    run(repository, ("memory", "tools", "tasks"))
    assert file.read_text().count("/tasks\n") == 1


def test_a_folder_of_the_users_with_such_a_name_is_not_ignored(repository: Path) -> None:
    run(repository)
    (repository / "memory").symlink_to(repository.parent)
    (repository / "tools").mkdir()
    (repository / "tools/mine.py").write_text("")
    (repository / "sub/memory").mkdir(parents=True)
    (repository / "sub/memory/mine.py").write_text("")
    assert git(repository, "status", "--porcelain") == "?? sub/\n?? tools/\n"


@pytest.mark.parametrize("part", [".git", ".git/info", ".git/info/exclude"])
def test_nothing_is_written_through_a_link(repository: Path, file: Path, part: str) -> None:
    away = repository.parent / "away"
    (repository / part).rename(away)
    (repository / part).symlink_to(away)
    run(repository)
    assert file.read_text() == "*.secret"


def test_a_file_with_two_names_is_left_alone(repository: Path, file: Path) -> None:
    os.link(file, repository.parent / "other")
    run(repository)
    assert file.read_text() == "*.secret"


def test_a_worktree_a_pipe_and_a_folder_that_is_no_repository_are_left_alone(repository: Path, file: Path) -> None:
    tree = repository.parent / "tree"
    (tree / "a").mkdir(parents=True)
    (tree / "a/.git").write_text(f"gitdir: {repository}/.git\n")
    (tree / "b/.git").mkdir(parents=True)
    for name in ("a", "b"):
        run(tree / name)
    assert (file.read_text(), os.listdir(tree / "b/.git")) == ("*.secret", [])
    file.unlink()
    os.mkfifo(file)
    run(repository)


def test_whoever_holds_the_lock_is_not_waited_for(repository: Path, file: Path) -> None:
    with file.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        run(repository)
    assert file.read_text() == "*.secret"
    run(repository)
    assert "/memory\n" in file.read_text()
