"""`toolyard snapshot restore`, `undo` and `gc` as a user runs them."""

import os
import shlex
import shutil

import pytest

from toolyard.cli.snapshot import restore
from toolyard.storage.audit_reader import read
from toolyard.storage.state_folder import state_dir


def test_a_restore_says_how_to_undo_it_and_is_recorded(place):
    snapshot = place.json("create")["id"]
    (place.root / "a.txt").write_text("new")
    (place.root / "b.txt").write_text("new")
    dry = place.json("restore", snapshot, "--dry-run")
    assert (dry["would_write"], dry["would_remove"]) == (["a.txt"], ["b.txt"])
    assert (place.root / "b.txt").exists()
    said = place.run("restore", snapshot)
    assert (place.root / "a.txt").read_text() == "one\ntwo\n"
    assert not (place.root / "b.txt").exists()
    undo = said.partition("To undo it: toolyard snapshot restore ")[2].split()
    assert undo[1:] == ["--workspace", str(place.root), "--state", str(place.state)]
    place.run("restore", undo[0])
    assert (place.root / "a.txt").read_text() == "new"
    event = list(read(state_dir(str(place.state), str(place.root))))[-1].event
    assert (event.tool, event.outcome.value) == ("snapshot", "ok")


def test_undoing_the_restore_of_some_paths_leaves_the_others_alone(place):
    (place.root / "-odd name").write_text("old")
    snapshot = place.json("create")["id"]
    (place.root / "a.txt").write_text("new")
    (place.root / "-odd name").write_text("new")
    said = place.run("restore", snapshot, "a.txt", "./-odd name")
    (place.root / "b.txt").write_text("written later")
    undo = shlex.split(said.partition("To undo it: toolyard snapshot restore ")[2])
    assert undo[1:4] == ["a.txt", "./-odd name", "--workspace"]
    place.run("restore", *undo[:3])
    assert {(place.root / name).read_text() for name in ("a.txt", "-odd name")} == {"new"}
    assert (place.root / "b.txt").read_text() == "written later"


@pytest.mark.parametrize("name", [b"od\xffd", b"two\nlines", b"it's \x1b[2J"])
def test_the_command_that_undoes_it_works_whatever_a_file_is_called(place, name):
    path = os.path.join(os.fsencode(place.root), name)
    for text in (b"old", b"new"):
        with open(path, "wb") as file:
            file.write(text)
        if text == b"old":
            snapshot = place.json("create")["id"]
    said = place.run("restore", snapshot, os.fsdecode(name))
    assert said.isascii()
    assert all(line.isprintable() for line in said.splitlines())
    undo = shlex.split(said.partition("To undo it: toolyard snapshot restore ")[2])
    place.run("restore", *undo[:2])
    with open(path, "rb") as file:
        assert file.read() == b"new"


def test_a_restore_that_changes_nothing_says_so_and_records_nothing(place):
    snapshot = place.json("create")["id"]
    said = place.run("restore", snapshot)
    assert (f"Nothing differs from snapshot {snapshot}" in said, "undo" in said) == (True, False)
    assert not place.json("restore", "latest", "a.txt")["changed"]
    assert [each["id"] for each in place.json("list")] == [snapshot]
    os.chmod(place.root, 0o750)  # nothing is written, and still something differs
    assert place.json("restore", snapshot)["changed"]


def test_snapshots_are_counted_back_from_the_newest(place):
    ids = []
    for number in range(3):
        (place.root / "a.txt").write_text(str(number))
        ids.append(place.json("create")["id"])
    assert [place.json("show", name)["id"] for name in ("latest", "latest~0", "latest~1", "latest~2")] == [
        *(ids[2], ids[2], ids[1], ids[0])
    ]
    assert place.run("show", "latest~1", "a.txt") == "1"
    said = place.run("show", "latest~3", code=1)
    assert all(part in said for part in ('no snapshot "latest~3"', "only 3", "The oldest is latest~2"))
    assert "no snapshot" in place.run("show", "latest~", code=1)


def test_undo_goes_back_to_the_newest_snapshot_that_differs_and_undoes_itself(place):
    assert "nothing to undo" in place.run("undo", code=1)
    first = place.json("create", "--reason", "mine")["id"]
    assert "nothing to undo" in place.run("undo", code=1)
    (place.root / "a.txt").write_text("new")
    dry = place.run("undo", "--dry-run")
    assert all(part in dry for part in (first, "mine", "would write a.txt"))
    assert (place.root / "a.txt").read_text() == "new"
    place.run("create")  # the newest now holds what is there: the one before is meant
    assert place.json("undo", "--dry-run")["snapshot"] == first
    assert f"Restored {first}" in place.run("undo")
    assert (place.root / "a.txt").read_text() == "one\ntwo\n"
    place.run("undo")
    assert (place.root / "a.txt").read_text() == "new"
    place.run("undo")
    assert (place.root / "a.txt").read_text() == "one\ntwo\n"
    (place.root / "a.txt").write_text("changed after it was undone")
    place.run("undo")
    assert (place.root / "a.txt").read_text() == "one\ntwo\n"


def test_one_file_is_restored(place):
    snapshot = place.json("create")["id"]
    (place.root / "a.txt").write_text("new")
    (place.root / "b.txt").write_text("new")
    assert place.json("restore", snapshot, "a.txt")["written"] == 1
    assert (place.root / "b.txt").exists()
    assert "Nothing would change." in place.run("restore", snapshot, "a.txt", "--dry-run")


def test_old_snapshots_are_dropped_by_count_and_age(place):
    for number in range(4):
        (place.root / "a.txt").write_text(str(number))
        place.run("create")
    assert place.json("gc")["dropped"] == []
    assert place.json("gc", "--older-than", "1h")["dropped"] == []
    assert len(place.json("gc", "--keep", "2", "--older-than", "0s")["dropped"]) == 2
    assert "Dropped 1 snapshot," in place.run("gc", "--keep", "1")


def test_what_would_be_dropped_is_told_and_stays(place):
    assert "Nothing would be dropped." in place.run("gc", "--dry-run")
    first = place.json("create", "--reason", "old")["id"]
    (place.root / "a.txt").write_text("new")
    place.run("create")
    said = place.run("gc", "--keep", "0", "--dry-run")
    assert all(word in said for word in (f"would drop {first}", "by hand: old"))
    assert place.json("gc", "--older-than", "0s", "--dry-run")["would_drop"] == [first]
    assert len(place.json("list")) == 2


@pytest.mark.parametrize("words", [("--keep", "0"), ("--older-than", "0s"), ("--keep", "0", "--older-than", "0s")])
def test_all_but_the_newest_are_dropped_only_for_who_says_so(place, words):
    for number in range(3):
        (place.root / "a.txt").write_text(str(number))
        newest = place.json("create")["id"]
    assert all(word in place.run("gc", *words, code=2) for word in ("2 snapshots, all but the newest", "--yes"))
    assert len(place.json("list")) == 3
    assert "Dropped 2 snapshots," in place.run("gc", *words, "--yes")
    assert [each["id"] for each in place.json("list")] == [newest]
    assert "Dropped 0 snapshots," in place.run("gc", *words)


@pytest.mark.parametrize(("answer", "code", "left"), [("n\n", 1, 2), ("y\n", 0, 1)])
def test_at_a_terminal_the_user_is_asked_before_all_but_the_newest_go(place, monkeypatch, answer, code, left):
    place.run("create")
    (place.root / "a.txt").write_text("new")
    place.run("create")
    monkeypatch.setattr(restore, "_at_terminal", lambda: True)
    assert "all but the newest" in place.run("gc", "--keep", "0", code=code, typed=answer)
    assert len(place.json("list")) == left


def test_the_same_restore_again_brings_back_the_same(place):
    for text in ("1", "2", "3"):
        (place.root / "a.txt").write_text(text)
        place.run("create")
    (place.root / "a.txt").write_text("not kept yet")
    for name, text in (("latest~1", "2"), ("latest~1", "2"), ("latest~2", "1"), ("latest~1", "2")):
        place.run("restore", name, "a.txt")
        assert (place.root / "a.txt").read_text() == text
    assert place.run("show", "latest", "a.txt") == "2"
    assert "only 3" in place.run("show", "latest~3", code=1)


@pytest.mark.parametrize(
    ("words", "way"),
    [
        ("undo a.txt", "toolyard snapshot restore latest a.txt"),
        ("restore a.txt", "toolyard snapshot restore latest a.txt"),
        ("diff a.txt", "toolyard snapshot diff --path a.txt"),
        ("diff latest a.txt", "toolyard snapshot diff latest --path a.txt"),
        ("show src/b.txt", "toolyard snapshot show latest src/b.txt"),
    ],
)
def test_a_path_in_the_place_of_a_snapshot_is_told_the_right_command(place, words, way):
    (place.root / "src").mkdir()
    (place.root / "src/b.txt").write_text("b")
    place.run("create")
    assert way in place.run(*words.split(), code=2)
    assert "no snapshot" in place.run("show", "nothing.txt", code=1)


def test_files_that_were_written_are_counted_without_their_folders(place):
    (place.root / "deep/er/empty").mkdir(parents=True)
    for name in ("deep/1", "deep/er/2", "deep/er/3"):
        (place.root / name).write_text(name)
    place.run("create")
    shutil.rmtree(place.root / "deep")
    assert "wrote 3 files, removed 0" in place.run("restore", "latest")
    assert (place.root / "deep/er/empty").is_dir()


def test_torn_is_a_number_of_a_file_too(place):
    place.run("create")
    assert [type(place.json("show", "latest", *path)["torn"]) for path in ([], ["a.txt"])] == [int, int]


def test_what_the_user_took_is_no_agents(place):
    place.run("create", "--reason", "mine")
    (place.root / "a.txt").write_text("changed")
    place.run("restore", "latest")
    assert {each["agent"] for each in place.json("list")} == {""}
    assert "by hand: mine" in place.run("list")
    (place.root / "a.txt").write_text("changed again")
    assert place.json("create", "--agent", "ana")["agent"] == "ana"
