"""What git is asked, and how its answers are told: every kind of change, as a commit would hold it."""

import os

import pytest

from toolyard.assistant.precommit import changes
from toolyard.core.errors import SecurityError, ValidationError


def test_staged_changed_and_untracked_files_are_told_apart(repo, look, listed):
    repo.write("a.txt", "one\n2\nthree\n")
    repo.git("add", "a.txt")
    repo.write("a.txt", "one\n2\n3\n")
    repo.write("new/b.txt", "b\n")
    found = look()
    assert listed(found) == [
        ("a.txt", "modified", True),
        ("a.txt", "modified", False),
        ("new/b.txt", "untracked", False),
    ]
    assert [change.added for change in found.changes] == [((2, "2"),), ((3, "3"),), ((1, "b"),)]
    assert (found.branch, found.head) == ("main", repo.git("rev-parse", "HEAD").strip())
    assert listed(look(unstaged=False)) == [("a.txt", "modified", True)]
    assert listed(look(staged=False)) == [("a.txt", "modified", False), ("new/b.txt", "untracked", False)]


def test_the_repository_is_as_it_was_afterwards(repo, look):
    repo.write("b.txt", "b\n")
    before = {path: path.stat().st_mtime_ns for path in repo.path.rglob("*")}
    look()
    assert {path: path.stat().st_mtime_ns for path in repo.path.rglob("*")} == before


def test_nothing_to_commit_is_a_no_go_that_says_so(repo, look):
    found = look()
    assert (found.verdict, found.reasons, found.changes) == ("no-go", ("There is nothing to commit.",), ())
    repo.write("a.txt", "other\n")
    assert look(unstaged=False).reasons == ("There is nothing to commit.",)
    with pytest.raises(ValidationError, match="nothing to inspect"):
        look(staged=False, unstaged=False)


def test_ignored_files_are_left_alone(repo, look, listed):
    repo.write(".gitignore", "*.log\n")
    repo.write("a.log", "x\n")
    assert listed(look()) == [(".gitignore", "untracked", False)]


def test_deletions_renames_copies_modes_and_types_are_told(repo, look, listed):
    def text(name):
        return "".join(f"{name} {number}\n" for number in range(40))

    repo.commit(**{name: text(name) for name in ("old.txt", "source.txt", "gone.txt", "run.sh", "link.txt")})
    repo.git("mv", "old.txt", "new.txt")
    repo.write("source.txt", f"{text('source.txt')}more\n")
    repo.write("copy.txt", text("source.txt"))
    (repo.path / "gone.txt").unlink()
    (repo.path / "run.sh").chmod(0o755)
    (repo.path / "link.txt").unlink()
    (repo.path / "link.txt").symlink_to("a.txt")
    repo.git("add", "-A")
    found = look()
    assert listed(found) == [
        ("copy.txt", "copied", True),
        ("gone.txt", "deleted", True),
        ("link.txt", "type-changed", True),
        ("new.txt", "renamed", True),
        ("run.sh", "modified", True),
        ("source.txt", "modified", True),
    ]
    by_path = {change.path: change for change in found.changes}
    assert by_path["new.txt"].old_path == "old.txt"
    assert by_path["copy.txt"].old_path == "source.txt"
    assert "new mode 100755" in by_path["run.sh"].diff
    assert by_path["link.txt"].added == ((1, "a.txt"),)
    assert "old.txt -> new.txt (renamed, staged)" in found.render_diff(10_000).text


def test_binary_files_are_told_as_such_and_large_ones_warned_of(repo, look, of):
    repo.write("small.bin", b"\0\1\2" * 100)
    repo.write("large.bin", os.urandom(6 * 1024 * 1024))
    repo.write("staged.bin", os.urandom(6 * 1024 * 1024))
    repo.git("add", "staged.bin")
    found = look()
    assert [(change.path, change.is_binary, change.added) for change in found.changes] == [
        ("large.bin", True, ()),
        ("small.bin", True, ()),
        ("staged.bin", True, ()),
    ]
    assert of(found, "binaries") == (
        "warned",
        [
            ("large.bin", 0, "is a binary file of 6 MiB that was not inspected"),
            ("staged.bin", 0, "is a binary file of 6 MiB that was not inspected"),
        ],
    )
    assert found.verdict == "go"


ODD = (
    b"a b.txt",
    b"-rf.txt",
    b'q"uote.txt',
    b"tab\there.txt",
    b"new\nline.txt",
    b"\xff\xfe.txt",
    "grüße.txt".encode(),
)


def test_paths_of_every_kind_are_told_right(repo, look):
    for name in ODD:
        repo.write(name, "first\n")
    repo.git("add", "--", *ODD[::2])
    found = look()
    expected = sorted((os.fsdecode(name), name in ODD[::2]) for name in ODD)
    shown = [
        (path.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), staged) for path, staged in expected
    ]
    assert [(change.path, change.is_staged) for change in found.changes] == shown
    assert {change.added for change in found.changes} == {((1, "first"),)}
    repo.commit()
    for name in ODD:
        repo.write(name, "second\n")
    changed = look().changes
    assert [change.path for change in changed] == [path for path, _ in shown]
    assert {change.added for change in changed} == {((1, "second"),)}
    assert "\nline.txt" not in found.render_report().replace("new\\nline.txt", "")


def test_lines_keep_the_number_that_they_have_in_the_new_file(repo, look):
    lines = [f"{number}" for number in range(1, 101)]
    repo.commit(**{"long.txt": "\n".join(lines) + "\n"})
    lines[4] = "five"
    lines[60:62] = ["sixty-one", "and a half", "sixty-two"]
    repo.write("long.txt", "\n".join(lines))
    (change,) = look().changes
    assert change.added == ((5, "five"), (61, "sixty-one"), (62, "and a half"), (63, "sixty-two"), (101, "100"))
    assert look().lines_of == {"long.txt": 101}


def test_lines_that_look_like_a_diff_are_content(repo, look):
    repo.write("patch.txt", "--- a/x\n+++ b/x\n@@ -1 +1 @@\ndiff --git a/x b/x\n")
    repo.git("add", "-A")
    (change,) = look().changes
    assert [text for _, text in change.added] == ["--- a/x", "+++ b/x", "@@ -1 +1 @@", "diff --git a/x b/x"]


def test_files_that_are_empty_or_lack_the_last_line_end_are_told(repo, look):
    repo.write("empty.txt", "")
    repo.write("bare.txt", "no end")
    assert [(change.path, change.added) for change in look().changes] == [
        ("bare.txt", ((1, "no end"),)),
        ("empty.txt", ()),
    ]


def test_before_the_first_commit_everything_is_new(make_repo, workspace, look, listed):
    repo = make_repo(workspace)
    assert look().reasons == ("There is nothing to commit.",)
    repo.write("a.txt", "a\n")
    repo.git("add", "a.txt")
    repo.write("b.txt", "b\n")
    found = look()
    assert listed(found) == [("a.txt", "added", True), ("b.txt", "untracked", False)]
    assert (found.branch, found.head, found.verdict) == ("main", "", "go")
    assert "before the first commit" in found.render_report()


def test_a_head_on_no_branch_is_told(repo, look):
    repo.git("checkout", "-q", "--detach")
    repo.write("b.txt", "b\n")
    found = look()
    assert (found.branch, found.verdict) == ("", "go")
    assert "HEAD is detached" in found.render_report()


def test_a_conflict_is_a_no_go(repo, look, of, listed):
    repo.git("checkout", "-q", "-b", "other")
    repo.commit(**{"a.txt": "one\ntheirs\nthree\n"})
    repo.git("checkout", "-q", "main")
    repo.commit(**{"a.txt": "one\nours\nthree\n"})
    with pytest.raises(Exception, match="merge"):
        repo.git("merge", "-q", "other")
    for options in ({}, {"unstaged": False}):
        found = look(**options)
        assert listed(found)[0][:2] == ("a.txt", "conflicted")
        assert len(found.changes) == 1
        assert of(found, "conflicts")[0] == "failed"
        assert found.verdict == "no-go"
        assert found.reasons[0].startswith("conflicts: a.txt is in conflict")
    repo.git("add", "a.txt")  # with its markers
    outcome, details = of(look(), "conflicts")
    assert (outcome, [line for _, line, _ in details]) == ("failed", [2, 6])


def test_submodules_at_other_commits_are_told(repo, make_repo, tmp_path, look, of, listed):
    inner = make_repo(tmp_path / "inner")
    inner.commit(**{"i.txt": "i\n"})
    repo.git("-c", "protocol.file.allow=always", "submodule", "-q", "add", str(inner.path), "sub")
    found = look()
    assert ("sub", "submodule", True) in listed(found)
    first = inner.git("rev-parse", "--short=12", "HEAD").strip()
    new = f"is a submodule at {first}: its commits were not inspected"
    assert (of(found, "git"), found.verdict) == (("warned", [("sub", 0, new)]), "go")
    repo.commit()
    (repo.path / "sub" / "i.txt").write_text("dirty\n")
    assert look().changes == ()  # what is not committed in there is no part of a commit here
    repo.git("-C", "sub", "commit", "-qam", "more")
    found = look()
    assert [change.status.value for change in found.changes] == ["submodule"]
    second = repo.git("-C", "sub", "rev-parse", "--short=12", "HEAD").strip()
    moved = f"is a submodule that moves {first}..{second}: its new commits were not inspected"
    assert (of(found, "git"), found.verdict) == (("warned", [("sub", 0, moved)]), "go")
    assert f"{first}..{second}" in found.render_report()
    repo.git("add", "sub")
    assert of(look(), "git") == ("warned", [("sub", 0, moved)])
    # The submodule is a root of its own.
    (repo.path / "sub" / "i.txt").write_text("again\n")
    assert listed(look("sub")) == [("i.txt", "modified", False)]


def test_of_a_submodule_that_goes_nothing_has_to_be_looked_into(repo, make_repo, tmp_path, look, of):
    inner = make_repo(tmp_path / "inner")
    inner.commit(**{"i.txt": "i\n"})
    repo.git("-c", "protocol.file.allow=always", "submodule", "-q", "add", str(inner.path), "sub")
    repo.commit()
    repo.git("rm", "-q", "sub")
    assert of(look(), "git") == ("passed", [])


def test_a_repository_inside_that_is_no_submodule_is_not_looked_into(repo, make_repo, look, of, listed):
    inner = make_repo(repo.path / "inner")
    inner.commit(**{"i.txt": "i\n"})
    found = look()
    assert listed(found) == [("inner", "untracked", False)]
    assert of(found, "git") == ("warned", [("inner/", 0, "is a separate repository, which was not inspected")])


def test_a_file_that_is_only_intended_to_be_added_is_seen(repo, look, listed):
    repo.write("b.txt", "b\n")
    repo.git("add", "-N", "b.txt")
    assert listed(look()) == [("b.txt", "added", False)]


def test_a_huge_change_is_a_no_go_that_says_so(repo, look, monkeypatch):
    monkeypatch.setattr(changes, "_DIFF_BYTES", 100_000)
    for name, stage in (("a.txt", False), ("b.txt", True), ("c.txt", False)):
        repo.write(name, "some words that repeat\n" * 20_000)
        if stage:
            repo.git("add", name)
    found = look()
    assert found.verdict == "no-go"
    assert "the diff of unstaged changes is too large" in found.reasons[0]
    assert found.reasons[0].endswith("and 2 more")
    assert not found.is_complete


def test_a_file_that_the_diff_does_not_reach_is_told_as_not_shown(repo, look, monkeypatch):
    monkeypatch.setattr(changes, "_DIFF_BYTES", 20_000)
    for name in ("b.txt", "c.txt"):
        repo.write(name, "some words that repeat\n" * 2_000)
    found = look()
    assert [(change.path, change.withheld) for change in found.changes] == [
        ("b.txt", ""),
        ("c.txt", "the change is too large to inspect"),
    ]


def test_the_diff_for_a_model_is_bounded_and_fair(repo, look):
    repo.write("long.py", "value = compute(1, 2, 3)\n" * 5_000)
    repo.write("short.py", "short = True\n")
    found = look()
    shown = found.render_diff(1_000).text
    assert "+short = True" in shown
    assert "more lines of this change]" in shown
    assert len(shown) < 6_000
    assert len(found.render_diff(10_000_000).text) > 100_000


def test_a_path_that_is_no_root_is_refused_with_the_root_that_is_meant(repo, look, make_repo):
    repo.write("deep/er/a.txt", "a\n")
    with pytest.raises(ValidationError, match="lies inside a repository whose root is") as caught:
        look("deep/er")
    assert caught.value.fields[0].field == "path"
    with pytest.raises(ValidationError, match=r"is not a folder"):
        look("a.txt")
    with pytest.raises(ValidationError, match=r"does not exist"):
        look("nowhere")
    inner = make_repo(repo.path / "inner")
    inner.write("x/y.txt", "y\n")
    with pytest.raises(ValidationError, match="whose root is inner"):
        look("inner/x")


def test_a_folder_without_a_repository_is_refused(workspace, look):
    (workspace / "plain").mkdir()
    for path in (".", "plain"):
        with pytest.raises(ValidationError, match="is not a git repository"):
            look(path)


def test_a_repository_above_the_workspace_is_not_used(make_repo, tmp_path, workspace, look):
    make_repo(tmp_path).commit()
    with pytest.raises(ValidationError, match="is not a git repository"):
        look()


def test_a_repository_outside_the_workspace_is_refused(make_repo, tmp_path, look):
    make_repo(tmp_path / "other")
    for path in (tmp_path / "other", "../other"):
        with pytest.raises(SecurityError):
            look(path)
