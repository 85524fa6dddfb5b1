"""A linked worktree is looked at with its main repository, wherever that lies, if that one knows it. No other is."""

import os

import pytest

from toolyard.assistant.precommit import inspect_changes
from toolyard.core.actions import Kind
from toolyard.core.errors import SecurityError, ToolError, ValidationError

KEY = "AKIA" + "IOSFODNN7EXAMPLE"


@pytest.fixture
def main(make_repo, tmp_path):
    """Somebody's repository, outside the workspace."""
    made = make_repo(tmp_path / "main")
    made.commit(**{"a.txt": "one\n", "private.txt": f"{KEY}\n"})
    return made


@pytest.fixture
def linked(main, workspace):
    main.git("worktree", "add", "-q", "-b", "feature", str(workspace / "tree"))
    return workspace / "tree"


def test_a_worktree_of_a_repository_outside_is_looked_at(linked, look, listed):
    (linked / "a.txt").write_text("two\n")
    (linked / "b.txt").write_text("b\n")
    found = look("tree")
    assert listed(found) == [("a.txt", "modified", False), ("b.txt", "untracked", False)]
    assert (found.branch, found.verdict) == ("feature", "go")


def test_a_workspace_may_be_the_worktree_itself(main, tmp_path, open_gate, listed):
    main.git("worktree", "add", "-q", "--detach", str(tmp_path / "tree"))
    (tmp_path / "tree" / "b.txt").write_text("b\n")
    gate = open_gate(at=tmp_path / "tree")
    assert listed(inspect_changes(gate, ".")) == [("b.txt", "untracked", False)]


def test_a_worktree_of_a_repository_in_the_workspace_is_looked_at(repo, look, listed):
    repo.git("worktree", "add", "-q", "-b", "feature", str(repo.path / "trees" / "one"))
    (repo.path / "trees" / "one" / "b.txt").write_text("b\n")
    assert listed(look("trees/one")) == [("b.txt", "untracked", False)]


def test_no_file_tool_reaches_the_main_repository(linked, open_gate, main):
    gate = open_gate()
    (linked / "b.txt").write_text("b\n")
    inspect_changes(gate, "tree")
    for path in (main.path / ".git" / "config", main.path / "private.txt"):
        with pytest.raises(SecurityError):
            gate.open(str(path), Kind.READ)


def test_the_main_repository_is_not_written(linked, main, look):
    (linked / "b.txt").write_text("b\n")
    before = {path: path.stat().st_mtime_ns for path in main.path.rglob("*")}
    look("tree")
    assert {path: path.stat().st_mtime_ns for path in main.path.rglob("*")} == before


def pointing(folder, to):
    folder.mkdir(exist_ok=True)
    (folder / ".git").write_text(f"gitdir: {to}\n")


def test_a_pointer_to_somebody_elses_repository_is_refused(main, workspace, look):
    for to in (main.path / ".git", "../../main/.git", main.path, "/", "/etc", "/nowhere/worktrees/x"):
        pointing(workspace / "evil", to)
        with pytest.raises(SecurityError, match="does not list this folder as its worktree"):
            look("evil")


def test_a_pointer_to_anothers_worktree_entry_is_refused(main, tmp_path, workspace, look):
    main.git("worktree", "add", "-q", "--detach", str(tmp_path / "theirs"))
    pointing(workspace / "evil", main.path / ".git" / "worktrees" / "theirs")
    with pytest.raises(SecurityError, match="does not list this folder"):
        look("evil")


def test_an_entry_whose_worktree_went_elsewhere_is_refused(linked, workspace, main, look):
    linked.rename(workspace / "moved")
    with pytest.raises(SecurityError, match="git worktree repair"):
        look("moved")
    main.git("worktree", "repair", str(workspace / "moved"))
    assert look("moved").reasons == ("There is nothing to commit.",)


def test_a_made_up_entry_in_the_workspace_leads_nowhere(main, workspace, look):
    entry = workspace / "fake" / "worktrees" / "evil"
    entry.mkdir(parents=True)
    (entry / "gitdir").write_text(f"{workspace}/evil/.git\n")
    (entry / "commondir").write_text(f"{main.path}/.git\n")
    (entry / "HEAD").write_text("ref: refs/heads/main\n")
    pointing(workspace / "evil", entry)
    with pytest.raises(ToolError) as caught:
        look("evil")
    assert KEY not in str(caught.value)


def test_links_to_a_repository_outside_are_refused(main, workspace, look):
    (workspace / "evil").mkdir()
    (workspace / "evil" / ".git").symlink_to(main.path / ".git")
    with pytest.raises(SecurityError):
        look("evil")
    (workspace / "whole").symlink_to(main.path)
    with pytest.raises(SecurityError):
        look("whole")
    (workspace / "way").symlink_to(main.path.parent)
    pointing(workspace / "round", "../way/main/.git")
    with pytest.raises(SecurityError):
        look("round")


def test_a_git_folder_whose_parts_are_links_shows_nothing_from_outside(main, repo, look):
    """Objects and references that lie outside are not there, in the sandbox."""
    for name in ("objects", "refs"):
        (repo.path / ".git" / name).rename(repo.path / f"{name}-away")
        (repo.path / ".git" / name).symlink_to(main.path / ".git" / name)
    with pytest.raises(ToolError):
        look()


def test_alternates_that_name_another_repository_lend_nothing(main, repo, look):
    stolen = main.git("rev-parse", "HEAD:private.txt").strip()
    (repo.path / ".git" / "objects" / "info").mkdir(exist_ok=True)
    (repo.path / ".git" / "objects" / "info" / "alternates").write_text(f"{main.path}/.git/objects\n")
    repo.git("update-index", "--add", "--cacheinfo", f"100644,{stolen},b.txt")
    (repo.path / ".git" / "objects" / "info" / "alternates").write_text(f"{main.path}/.git/objects\n")
    with pytest.raises(ToolError) as caught:
        look()
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("content", ["", "gitdir:", "gitdir: \n", "nonsense", "gitdir: x\0y", "x" * 100_000])
def test_a_git_file_that_says_nothing_is_refused(workspace, look, content):
    (workspace / "odd").mkdir()
    (workspace / "odd" / ".git").write_text(content)
    with pytest.raises((ValidationError, SecurityError, ToolError)):
        look("odd")


def test_a_pipe_in_the_place_of_the_git_file_blocks_nobody(workspace, look):
    (workspace / "odd").mkdir()
    os.mkfifo(workspace / "odd" / ".git")
    with pytest.raises(ValidationError, match="neither a repository nor a link to one"):
        look("odd")
