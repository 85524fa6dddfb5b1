"""Repositories among what agents share: a merge leaves them alone, and git takes commits from them."""

import shutil
import subprocess

import pytest

from toolyard.core.errors import ValidationError

GIT = ("git", "-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "init.defaultBranch=main")


def repository(folder, head):
    """What a merge must not touch of a repository."""
    (folder / ".git" / "refs" / "heads").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text(head)
    (folder / ".git" / "refs" / "heads" / "main").write_text(head)


def names(entries):
    return [entry["path"] for entry in entries]


def held(folder):
    return {path.relative_to(folder): path.read_text() for path in folder.rglob("*") if path.is_file()}


async def test_a_merge_of_everything_touches_no_repository(a, b):
    repository(a.work, "ours\n")
    repository(b.work, "theirs\n")
    repository(b.work / "deep" / "nested", "theirs\n")
    (b.work / "submodule").mkdir()
    (b.work / "submodule" / ".git").write_text("gitdir: ../.git/modules/submodule\n")
    for name in ("x.txt", "deep/nested/y.txt", "submodule/z.txt"):
        await b.write(name, "1")
    await b.share()

    result = await a.call("shared_merge", peer="agent_b", paths=["**"])

    done = result.structured
    assert names(done["added"]) == ["deep/nested/y.txt", "submodule/z.txt", "x.txt"]
    assert (done["conflicts"], done["kept"], done["merged"]) == ([], [], [])
    assert done["repositories"] == [".", "deep/nested", "submodule"]
    assert result.text.count("repositor") == 1 + 1, "one line: how many, and what to do"
    assert "the .git of 3 repositories" in result.text
    assert "git pull shared/agent_b BRANCH" in result.text
    assert set(held(a.work / ".git").values()) == {"ours\n"}
    assert not (a.work / "deep" / "nested" / ".git").exists()
    assert not (a.work / "submodule" / ".git").exists()


async def test_a_repository_that_is_the_same_on_both_sides_is_not_mentioned(a, b):
    for one in (a, b):
        repository(one.work, "same\n")
    await b.write("x.txt", "1")
    await b.share()

    result = await a.call("shared_merge", peer="agent_b", paths=["**"])

    assert result.structured["repositories"] == []
    assert "repositor" not in result.text


async def test_repositories_that_are_not_meant_are_not_mentioned(a, b):
    repository(b.work, "theirs\n")
    await b.write("deep/x.txt", "1")
    await b.share()

    for pattern in ("deep", "*.txt"):
        assert (await a.merge("agent_b", pattern))["repositories"] == []


async def test_where_only_repositories_are_meant_that_is_told(a, b):
    repository(b.work / "deep", "theirs\n")
    await b.share()

    done = await a.merge("agent_b", "deep")

    assert done["repositories"] == ["deep"]
    assert not (a.work / "deep").exists()


@pytest.mark.parametrize(
    "path", [".git", ".git/HEAD", "shared/agent_b/.git/refs", "deep/.git/**", "**/.git/config", ".GIT/HEAD"]
)
async def test_a_path_inside_a_repository_is_refused_with_the_way_to_take_commits(a, b, path):
    repository(b.work, "theirs\n")
    await b.share()

    with pytest.raises(ValidationError, match="never merged file by file") as refused:
        await a.merge("agent_b", path)

    assert "git pull shared/agent_b BRANCH" in refused.value.hint
    assert not (a.work / ".git").exists()


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git to pull with")
async def test_git_takes_commits_from_what_a_peer_shares(a, b):
    def git(agent, *words):
        done = subprocess.run([*GIT, *words], cwd=agent.work, capture_output=True, text=True, timeout=50, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    git(b, "init", "-q")
    (b.work / "x.txt").write_text("1")
    git(b, "add", "x.txt")
    git(b, "commit", "-q", "-m", "first")
    await b.share()
    git(a, "init", "-q")

    git(a, "pull", "-q", str(a.yard.home.shared_folder) + "/agent_b", "main")

    assert git(a, "log", "--format=%s") == "first\n"
    assert (a.work / "x.txt").read_text() == "1"
