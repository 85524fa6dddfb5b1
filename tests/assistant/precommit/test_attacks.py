"""A repository that was made to make git act: nothing it names is run, written, reached or read."""

import os
import stat

import pytest

from toolyard.assistant.precommit import git
from toolyard.assistant.sandboxed_commands import run_program
from toolyard.core.errors import ToolError

RAN = "the program was run"
KEY = "AKIA" + "IOSFODNN7EXAMPLE"


@pytest.fixture
def marks(tmp_path):
    """A folder that everybody may write; whatever runs outside the walls leaves a file in it."""
    folder = tmp_path / "marks"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


@pytest.fixture
def program(repo, marks):
    """A program in the repository that leaves a mark, and one where the sandbox would let it, if it is run at all."""
    path = repo.write("evil.sh", f"#!/bin/sh\ntouch {marks}/outside {repo.path}/inside; echo {RAN} >&2; cat\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    repo.commit()
    return str(path)


def configure(repo, **settings):
    with open(repo.path / ".git" / "config", "a") as file:
        file.writelines(f"[{section.replace('__', ' ')}]\n{lines}\n" for section, lines in settings.items())


@pytest.fixture
def ran(monkeypatch):
    """What git and whatever it started said, run by run: the programs above say that they run."""
    said = []

    def told(*arguments, **options):
        result = run_program(*arguments, **options)
        said.append(result.err.decode("utf-8", "replace"))
        return result

    monkeypatch.setattr(git, "run_program", told)
    return said


def test_filters_conversions_monitors_and_hooks_are_not_run(repo, program, marks, look, ran):
    configure(
        repo,
        core=f"fsmonitor = {program}\nhooksPath = {repo.path}/hooks\npager = {program}\neditor = {program}",
        diff=f"external = {program}",
        **{
            'filter__"x"': f"clean = {program}\nsmudge = {program}\nprocess = {program}\nrequired = true",
            'filter__"a=b.c"': f"clean = {program}",
            'diff__"x"': f"textconv = {program}\ncommand = {program}\ncachetextconv = true",
            "interactive": f"diffFilter = {program}",
            "gpg": f"program = {program}",
            "log": "showSignature = true",
            "alias": f"status = !{program}\ndiff = !{program}",
        },
    )
    for hook in ("pre-commit", "post-index-change", "fsmonitor-watchman", "query-watchman"):
        for folder in ("hooks", ".git/hooks"):
            os.symlink(program, repo.write(f"{folder}/{hook}.old", "").with_name(hook))
    repo.write(".gitattributes", "* filter=x diff=x\nb.txt filter=a=b.c\n")
    repo.write("a.txt", "changed\n")
    repo.write("b.txt", "new\n")
    found = look()
    assert {"a.txt", "b.txt", ".gitattributes"} <= {change.path for change in found.changes}
    assert next(change.added for change in found.changes if change.path == "a.txt") == ((1, "changed"),)
    assert (os.listdir(marks), (repo.path / "inside").exists()) == ([], False)
    assert [text for text in ran if RAN in text] == []


def test_no_filter_is_run_because_there_are_too_many_to_switch_off(repo, program, marks, look, ran):
    configure(repo, **{f'filter__"f{number}"': f"clean = {program}" for number in range(200)})
    repo.write(".gitattributes", "*.txt filter=f199\n*.md filter=f200\n")
    repo.write("a.txt", "changed\n")
    repo.write("b.md", "new\n")
    assert {"a.txt", "b.md"} <= {change.path for change in look().changes}
    configure(repo, **{'filter__"f200"': f"clean = {program}"})
    with pytest.raises(ToolError, match="too large to be made safe"):
        look()
    assert (os.listdir(marks), [text for text in ran if RAN in text]) == ([], [])


def test_nothing_of_a_submodules_configuration_is_run(repo, make_repo, tmp_path, program, marks, look, ran, of):
    """A program in there could write into the output of our git, and forge what it says."""
    inner = make_repo(tmp_path / "inner")
    inner.commit(**{"i.txt": "i\n"})
    repo.git("-c", "protocol.file.allow=always", "submodule", "-q", "add", str(inner.path), "sub")
    repo.commit()
    with open(repo.path / ".git" / "modules" / "sub" / "config", "a") as file:
        file.write(f'[core]\nfsmonitor = {program}\n[filter "x"]\nclean = {program}\n')
    (repo.path / "sub" / ".gitattributes").write_text("* filter=x\n")
    (repo.path / "sub" / "i.txt").write_text("changed\n")
    repo.write("leak.py", "key = 'AKIA" + "IOSFODNN7EXAMPLE'\n")
    found = look()
    assert [change.path for change in found.changes] == ["leak.py"]
    assert found.verdict == "no-go"
    assert (os.listdir(marks), (repo.path / "inside").exists()) == ([], False)
    assert [text for text in ran if RAN in text] == []


@pytest.mark.parametrize(
    "url", ["ext::sh -c touch% {marks}/outside", "--upload-pack=touch {marks}/outside", "../../x"]
)
def test_no_submodule_is_fetched_whatever_its_address_says(repo, marks, look, url):
    repo.write(".gitmodules", f'[submodule "sub"]\n\tpath = sub\n\turl = {url.format(marks=marks)}\n')
    head = repo.git("rev-parse", "HEAD").strip()
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{head},sub")
    (repo.path / "sub").mkdir()
    assert ("sub", "submodule") in [(change.path, change.status.value) for change in look().changes]
    assert os.listdir(marks) == []


def test_what_a_partial_clone_lacks_is_not_fetched(repo, marks, look):
    blob = repo.git("rev-parse", "HEAD:a.txt").strip()
    (repo.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    configure(
        repo,
        core="repositoryformatversion = 1",
        extensions="partialClone = origin",
        **{
            'remote__"origin"': f"url = ext::sh -c touch% {marks}/outside\npromisor = true",
            "protocol": "allow = always",
        },
    )
    repo.write("a.txt", "changed\n")
    with pytest.raises(ToolError, match="could not read the repository"):
        look()
    assert os.listdir(marks) == []


def test_a_work_tree_elsewhere_is_not_used(repo, make_repo, tmp_path, look, listed):
    other = make_repo(tmp_path / "ws" / "other")
    other.write("secret.txt", "s\n")
    configure(repo, core=f"worktree = {other.path}\nbare = false")
    repo.write("a.txt", "changed\n")
    assert ("a.txt", "modified", False) in listed(look())
    configure(repo, core="worktree = /etc")
    assert ("a.txt", "modified", False) in listed(look())


def test_a_configuration_that_includes_a_secret_file_tells_nothing_of_it(repo, tmp_path, look):
    (tmp_path / "secret").write_text(f"[core]\npager = {KEY}\n{KEY}\n")
    repo.write("hidden", f"[core]\npager = {KEY}\n{KEY}\n")
    repo.write("a.txt", "changed\n")
    configure(repo, include=f"path = {tmp_path}/secret")
    found = look(permissions={"deny": ["Read(hidden)"]})
    assert KEY not in f"{found!r}{found.render_report()}{found.render_diff(10_000).text}"
    configure(repo, include=f"path = {repo.path}/a-plain-file")
    repo.write("a-plain-file", f"= {KEY}\n")
    with pytest.raises(ToolError) as caught:
        look()
    assert KEY not in f"{caught.value!r}{caught.value}{caught.value.data()}"


def test_settings_that_bend_the_output_of_git_change_nothing(repo, look, listed):
    configure(
        repo,
        diff="noprefix = true\nmnemonicPrefix = true\nrenames = false\ncontext = 0\nignoreSubmodules = all\n"
        "wordRegex = .\nrelative = true\nsubmodule = log\ncolorMoved = zebra\norderFile = a.txt",
        color="ui = always\ndiff = always",
        core="quotePath = false\nabbrev = 4\npager = cat",
        status="showUntrackedFiles = no\nrenames = false\nrelativePaths = true\nshort = true",
        grep="column = true\nfullName = false\npatternType = perl\nlineNumber = false",
    )
    repo.write("grüße.txt", "new\n")
    repo.write("a.txt", "one\n2\nthree\n")
    found = look()
    assert listed(found) == [("a.txt", "modified", False), ("grüße.txt", "untracked", False)]
    assert [change.added for change in found.changes] == [((2, "2"),), ((1, "new"),)]
    assert "+++ b/a.txt" in found.changes[0].diff


def test_ignore_files_outside_the_repository_hide_nothing(repo, look, listed):
    configure(repo, core=f"excludesFile = {repo.path}/hiding\nattributesFile = {repo.path}/hiding")
    repo.write("hiding", "b.txt\n")
    repo.write("b.txt", "b\n")
    assert ("b.txt", "untracked", False) in listed(look())


def test_names_that_look_like_options_or_patterns_are_names(repo, look):
    for name in ("--output=x", "-O", ":(exclude)a", "*", "$(touch x)", "`touch y`", ";touch z"):
        repo.write(name, "n\n")
    before = sorted(os.listdir(repo.path))
    assert len(look().changes) == 7
    assert sorted(os.listdir(repo.path)) == before


def test_a_link_is_not_followed(repo, tmp_path, look):
    (tmp_path / "outside.txt").write_text(f"{KEY}\n")
    (repo.path / "link").symlink_to(tmp_path / "outside.txt")
    (change,) = look().changes
    assert change.added == ((1, str(tmp_path / "outside.txt")),)
    assert look().verdict == "go"
