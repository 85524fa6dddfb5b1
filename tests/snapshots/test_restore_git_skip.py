"""A restore that leaves git's history alone: which repositories stay, which come back, and what lies around them."""

import os
import shutil

import pytest

from toolyard.snapshots import DiffLimits

from .conftest import picture


def repository(place, folder, head):
    for name in ("HEAD", "refs/heads/main", f"objects/{head[:2]}/{head[2:]}"):
        place.write(f"{folder}/{name}", head)


def dry(place, snapshot, path=""):
    found = place.store.diff(snapshot.id, root=str(place.root), path=path, limits=DiffLimits(skip_git=True))
    return {change.path for change in found.changes}, found.skipped_repositories


@pytest.fixture
def before(place):
    """A snapshot of two repositories, one in the other's work tree, and commits made since."""
    place.write("a.txt", "old")
    place.write("lib/b.txt", "old")
    repository(place, ".git", "first")
    repository(place, "lib/.git", "first")
    snapshot = place.take().snapshot
    place.write("a.txt", "new")
    place.write("lib/b.txt", "new")
    place.write("lib/added.txt")
    repository(place, ".git", "second")
    repository(place, "lib/.git", "second")
    return snapshot


def restore(place, snapshot, **options):
    return place.store.restore(snapshot.id, root=str(place.root), skip_git=True, **options)


def test_files_come_back_and_commits_stay_in_nested_repositories_too(place, before):
    commits = picture(place.root / ".git"), picture(place.root / "lib/.git")
    assert dry(place, before) == ({b"a.txt", b"lib/b.txt", b"lib/added.txt"}, (b".git", b"lib/.git"))
    done = restore(place, before)
    assert ((place.root / "a.txt").read_text(), (place.root / "lib/b.txt").read_text()) == ("old", "old")
    assert not (place.root / "lib/added.txt").exists()
    assert (picture(place.root / ".git"), picture(place.root / "lib/.git")) == commits
    assert (set(done.skipped_repositories), done.skipped, done.failed) == ({b".git", b"lib/.git"}, (), ())
    again = restore(place, before)
    assert (again.differed, set(again.skipped_repositories)) == (False, {b".git", b"lib/.git"})
    assert dry(place, before)[0] == set()


def test_everything_is_everything_where_nobody_asks_to_leave_them(place, before):
    place.store.restore(before.id, root=str(place.root))
    assert (place.root / ".git/refs/heads/main").read_text() == "first"
    assert not (place.root / ".git/objects/se").exists()


@pytest.mark.parametrize("path", ["lib/.git", "lib/.git/refs"])
def test_a_repository_that_is_named_comes_back(place, before, path):
    done = restore(place, before, paths=[path])
    assert (place.root / "lib/.git/refs/heads/main").read_text() == "first"
    assert (place.root / ".git/refs/heads/main").read_text() == "second"
    assert done.skipped_repositories == ()


def test_a_folder_that_is_named_comes_back_without_the_repository_in_it(place, before):
    assert dry(place, before, "lib") == ({b"lib/b.txt", b"lib/added.txt"}, (b"lib/.git",))
    assert restore(place, before, paths=["lib"]).skipped_repositories == (b"lib/.git",)
    assert (place.root / "lib/b.txt").read_text() == "old"
    assert (place.root / "lib/.git/refs/heads/main").read_text() == "second"


@pytest.mark.parametrize("gone", [".git", ".git/objects", ".git/HEAD", "lib"])
def test_a_repository_that_is_gone_or_half_deleted_comes_back(place, before, gone):
    path = place.root / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    done = restore(place, before)
    folder = place.root / ("lib/.git" if gone == "lib" else ".git")
    assert {path.name for path in folder.iterdir()} == {"HEAD", "objects", "refs"}
    assert (folder / "refs/heads/main").read_text() == "first"
    assert (folder / "objects/fi/rst").read_text() == "first"
    assert len(done.skipped_repositories) == 1


def test_a_repository_made_since_stays_where_its_files_go(place):
    snapshot = place.take().snapshot
    place.write("new/deep/c.txt")
    repository(place, "new/deep/.git", "first")
    assert dry(place, snapshot) == ({b"new/deep/c.txt"}, (b"new/deep/.git",))
    done = restore(place, snapshot)
    assert os.listdir(place.root / "new/deep") == [".git"]
    assert (place.root / "new/deep/.git/objects/fi/rst").exists()
    assert (done.skipped_repositories, done.skipped, done.removed) == ((b"new/deep/.git",), (), 1)


def test_the_mode_of_a_folder_around_one_comes_back(place, before):
    (place.root / "lib").chmod(0o700)
    restore(place, before)
    assert (place.root / "lib").stat().st_mode & 0o777 == 0o755


def test_what_is_merely_called_git_hides_nothing(place):
    snapshot = place.take().snapshot
    place.write("x/.git/evil.py")
    place.write("y/.git", "gitdir: elsewhere\n")
    assert restore(place, snapshot).skipped_repositories == ()
    assert os.listdir(place.root) == []
