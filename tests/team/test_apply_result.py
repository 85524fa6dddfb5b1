"""The winner's files in the user's folder, when that was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolyard.core.errors import ValidationError
from toolyard.snapshots import SnapshotStore
from toolyard.team.apply_result import TeamFiles
from toolyard.team.events import RunFinished
from toolyard.testing.mock_model import Call, Say, Turn

WRITES = Turn(
    calls=(
        Call("Write", {"file_path": "plan.md", "content": "# Plan\n"}),
        Call("Write", {"file_path": "src/app.py", "content": "print(1)\n"}),
    )
)


def files_of(team, finished: RunFinished) -> TeamFiles:
    from toolyard.config.loader import load_config

    config = load_config(str(team.folder / "team.yaml"), env={})
    return TeamFiles(config, team.settings(), None, finished.began)


def test_the_files_come_and_what_is_there_stays(team_of, tmp_path: Path) -> None:
    team = team_of(a=[WRITES, Say("Done.")])
    finished = team.run(["a"])
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes.txt").write_text("my notes")
    (mine / "plan.md").write_text("my old plan")

    delivered = files_of(team, finished).apply_to_folder("a", finished.snapshot, str(mine))

    assert delivered.written >= 2
    assert (mine / "plan.md").read_text() == "# Plan\n"
    assert (mine / "src" / "app.py").read_text() == "print(1)\n"
    assert (mine / "notes.txt").read_text() == "my notes"


def test_it_can_be_undone(team_of, tmp_path: Path) -> None:
    team = team_of(a=[WRITES, Say("Done.")])
    finished = team.run(["a"])
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "plan.md").write_text("my old plan")
    files = files_of(team, finished)
    delivered = files.apply_to_folder("a", finished.snapshot, str(mine))

    with SnapshotStore(files._agent_paths("a").snapshots_folder) as store:
        store.restore(delivered.undo, root=str(mine))

    assert (mine / "plan.md").read_text() == "my old plan"
    assert not (mine / "src" / "app.py").exists()


def test_the_same_files_come_again_from_a_second_run_that_changed_nothing(team_of, tmp_path: Path) -> None:
    team = team_of(a=[WRITES, Say("Done.")])
    team.run(["a"])
    finished = team.run(["a"])
    mine = tmp_path / "mine"
    mine.mkdir()

    files_of(team, finished).apply_to_folder("a", finished.snapshot, str(mine))

    assert (mine / "plan.md").exists()


def test_nothing_is_brought_unless_asked_and_only_into_a_folder(team_of, tmp_path: Path) -> None:
    team = team_of(a=[WRITES, Say("Done.")])
    finished = team.run(["a"])

    assert not (tmp_path / "plan.md").exists()
    with pytest.raises(ValidationError, match="is not a folder"):
        files_of(team, finished).apply_to_folder("a", finished.snapshot, str(tmp_path / "nowhere"))


def test_of_an_agent_in_the_users_folder_only_what_it_changed_is_brought(team_of, tmp_path: Path) -> None:
    team = team_of(a=[WRITES, Say("Done.")])
    team.backend = {"cwd": "work"}
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "mine.txt").write_text("mine")
    finished = team.run(["a"])
    other = tmp_path / "other"
    other.mkdir()

    files_of(team, finished).apply_to_folder("a", finished.snapshot, str(other))

    assert (other / "plan.md").exists()
    assert not (other / "mine.txt").exists()


def test_the_report_shows_what_was_changed(team_of) -> None:
    team = team_of(a=[WRITES, Say("Done.")])
    finished = team.run(["a"])

    diff = files_of(team, finished).diff_of("a")

    assert "+# Plan" in diff
    assert "+print(1)" in diff
    report = Path(finished.folder, "report.md").read_text()
    assert "# Plan" in report
    assert "Done." in report
    assert Path(finished.folder, "report.html").exists()


HOOK = (
    "mkdir -p .git/hooks sub/.git .GIT && echo evil | tee .git/hooks/pre-commit .GIT/config sub/.git/config > a.txt"
)


@pytest.mark.parametrize("cwd", ["", "work"])
def test_a_repository_of_the_winner_never_touches_that_of_the_user(team_of, tmp_path: Path, cwd: str) -> None:
    team = team_of(a=[Call("Bash", {"command": HOOK}), Say("Done.")])
    team.backend = {"cwd": cwd} if cwd else {}
    finished = team.run(["a"])
    mine = tmp_path / "mine"
    (mine / ".git" / "hooks").mkdir(parents=True)
    (mine / ".git" / "HEAD").write_text("ref: refs/heads/main\n")

    files_of(team, finished).apply_to_folder("a", finished.snapshot, str(mine))

    assert (mine / "a.txt").read_text() == "evil\n"
    assert (mine / ".git" / "HEAD").read_text() == "ref: refs/heads/main\n"
    found = {str(path.relative_to(mine)) for path in mine.rglob("*")}
    assert found == {"a.txt", ".git", ".git/HEAD", ".git/hooks"}


CHANGES = (
    "mkdir -p src empty; echo new > src/app.py; echo new > moved.txt; rm -rf gone; rm became; mkdir became; "
    "echo in > became/in; rm -rf turned; echo file > turned; chmod 700 mode; mv old.txt new.txt"
)


@pytest.mark.parametrize("cwd", ["", "work"])
def test_what_else_is_in_the_same_folders_stays(team_of, tmp_path: Path, cwd: str) -> None:
    team = team_of(a=[Call("Bash", {"command": CHANGES}), Say("Done.")])
    team.backend = {"cwd": cwd} if cwd else {}
    work = tmp_path / cwd if cwd else team.workspace("a")
    for name in ("gone/one.txt", "became", "turned/x", "mode/x", "old.txt"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(f"{name} is as it was")
    finished = team.run(["a"])
    mine = tmp_path / "mine"
    for folder in ("src", "empty", "gone", "became", "turned", "mode", "moved.txt"):
        (mine / folder).mkdir(parents=True)
        (mine / folder / "mine.txt").write_text("mine")
    (mine / "old.txt").write_text("mine")

    delivered = files_of(team, finished).apply_to_folder("a", finished.snapshot, str(mine))

    assert [path.read_text() for path in sorted(mine.rglob("mine.txt"))] == ["mine"] * 7
    assert (mine / "src" / "app.py").read_text() == "new\n"
    assert (mine / "became" / "in").read_text() == "in\n"
    assert (mine / "new.txt").read_text() == "old.txt is as it was"
    assert not (mine / "old.txt").exists()
    assert {line.partition(":")[0] for line in delivered.skipped} == {"moved.txt", "turned"}
