"""`toolyard snapshot restore` and `undo` in a repository: the files come back, the commits stay."""

import shutil
import subprocess

import pytest

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
WHO = ("-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "init.defaultBranch=main")


@pytest.fixture
def git(place):
    def run(*words):
        command = ["git", *WHO, "-C", str(place.root), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    run("init", "-q")
    return run


def commit(place, git, text):
    (place.root / "a.txt").write_text(text)
    git("add", "a.txt")
    git("commit", "-qm", text)


LEFT = "Left alone, with its commits: .git (--with-git restores that, too).\n"


def test_undo_keeps_the_commits_that_the_user_made_since_and_says_so(place, git):
    commit(place, git, "first")
    place.run("create")
    commit(place, git, "second")
    dry = place.run("undo", "--dry-run").splitlines()[1:]
    assert dry == ["would write a.txt", LEFT.replace("Left", "Would leave").strip()]
    planned = place.json("undo", "--dry-run")
    assert (planned["would_write"], planned["would_remove"], planned["would_leave"]) == (["a.txt"], [], [".git"])
    assert LEFT in place.run("undo")
    assert (place.root / "a.txt").read_text() == "first"
    assert git("log", "--format=%s").split() == ["second", "first"]
    assert git("status", "--short") == " M a.txt\n"
    git("fsck", "--strict")
    assert LEFT not in place.run("undo"), "a second one undoes the first"
    assert (place.root / "a.txt").read_text() == "second"
    assert git("status", "--short") == ""


def test_undo_finds_what_differs_beside_the_commits(place, git):
    commit(place, git, "first")
    place.run("create")
    (place.root / "a.txt").write_text("second")
    place.run("create")
    git("commit", "-qam", "second")
    place.run("undo")
    assert (place.root / "a.txt").read_text() == "first"


def test_where_only_commits_came_there_is_nothing_to_undo(place, git):
    commit(place, git, "first")
    snapshot = place.json("create")["id"]
    git("commit", "-q", "--allow-empty", "-m", "second")
    assert "nothing to undo" in place.run("undo", code=1)
    said = place.run("restore", snapshot)
    assert f"Only git data differs from snapshot {snapshot}, so nothing was changed.\n{LEFT}" in said
    assert place.json("restore", snapshot)["left"] == [".git"]


def test_with_git_commits_are_taken_back_and_the_undo_brings_them_again(place, git):
    commit(place, git, "first")
    snapshot = place.json("create")["id"]
    commit(place, git, "second")
    assert ".git/refs/heads/main" in place.json("restore", snapshot, "--dry-run", "--with-git")["would_write"]
    said = place.run("restore", snapshot, "--with-git")
    assert (git("log", "--format=%s").split(), git("status", "--short")) == (["first"], "")
    undo = said.partition("To undo it: toolyard snapshot restore ")[2].split()
    assert undo[1] == "--with-git"
    place.run("restore", *undo[:2])
    assert (git("log", "--format=%s").split(), git("status", "--short")) == (["second", "first"], "")


def test_a_repository_that_was_deleted_comes_back_with_undo(place, git):
    commit(place, git, "first")
    place.run("create")
    shutil.rmtree(place.root / ".git")
    place.run("undo")
    assert git("log", "--format=%s").split() == ["first"]
    git("fsck", "--strict")
