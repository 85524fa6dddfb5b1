"""What differs between snapshots, and from a snapshot to the folder as it is."""

import os
import time

import pytest

from toolyard.core.errors import ToolError
from toolyard.snapshots import ChangeType, DiffLimits
from toolyard.snapshots.diff import renames


def told(diff):
    return {(str(change.what), change.path) for change in diff.changes}


@pytest.fixture
def changed(place):
    """A snapshot, and a folder that has changed in every way since."""
    place.write("text", "one\ntwo\nthree\n")
    place.write("binary", bytes(range(256)))
    place.write("mode", "x", 0o644)
    place.write("gone/file", "gone\n")
    place.write("moved", "a file of some length\n" * 5)
    place.write("edited", "".join(f"line {number}\n" for number in range(50)))
    os.symlink("a", place.root / "link")
    first = place.take().snapshot
    place.write("text", "one\n2\nthree\n")
    place.write("binary", bytes(range(255)))
    os.chmod(place.root / "mode", 0o600)
    os.unlink(place.root / "gone/file")
    os.rmdir(place.root / "gone")
    os.makedirs(place.root / "elsewhere")
    os.rename(place.root / "moved", place.root / "elsewhere/moved")
    os.unlink(place.root / "edited")
    place.write("rewritten", "".join(f"line {number}\n" for number in range(3, 53)))
    os.unlink(place.root / "link")
    os.symlink("b", place.root / "link")
    place.write("new", "new\n")
    return first


EXPECTED = {
    ("changed", b"text"),
    ("changed", b"binary"),
    ("mode", b"mode"),
    ("removed", b"gone"),
    ("removed", b"gone/file"),
    ("added", b"elsewhere"),
    ("renamed", b"elsewhere/moved"),
    ("renamed", b"rewritten"),
    ("changed", b"link"),
    ("added", b"new"),
}


def test_every_kind_of_change_is_told_against_the_live_folder_without_writing(place, changed):
    packs = {name: os.stat(place.folder / "packs" / name).st_size for name in os.listdir(place.folder / "packs")}
    diff = place.store.diff(changed.id)
    assert told(diff) == EXPECTED
    assert diff.total == len(EXPECTED)
    assert packs == {
        name: os.stat(place.folder / "packs" / name).st_size for name in os.listdir(place.folder / "packs")
    }
    assert len(place.store.list()) == 1


def test_two_snapshots_differ_as_the_live_folder_does(place, changed):
    live = place.store.diff(changed.id)
    second = place.take().snapshot
    assert place.store.diff(changed.id, second.id) == live
    back = place.store.diff(second.id, changed.id)
    assert ("renamed", b"moved") in told(back)
    assert ("added", b"gone/file") in told(back)


def test_texts_are_unified_and_the_rest_is_summarised(place, changed):
    texts = {change.path: change.text for change in place.store.diff(changed.id).changes}
    assert texts[b"text"] == "--- a/text\n+++ b/text\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"
    assert texts[b"binary"] == "binary: 256 → 255 bytes"
    assert texts[b"mode"] == "mode 0644 → 0600"
    assert texts[b"link"] == "link to a → link to b"
    assert texts[b"new"] == "--- /dev/null\n+++ b/new\n@@ -0,0 +1,1 @@\n+new"
    assert texts[b"gone/file"].startswith("--- a/gone/file\n+++ /dev/null")
    assert texts[b"elsewhere/moved"] == ""
    assert texts[b"rewritten"].startswith("--- a/edited\n+++ b/rewritten\n")


def test_renames_say_how_alike_the_files_are(place, changed):
    renames = {c.path: c for c in place.store.diff(changed.id).changes if c.what is ChangeType.RENAMED}
    assert renames[b"elsewhere/moved"].similarity == 1.0
    assert renames[b"elsewhere/moved"].old_path == b"moved"
    assert 0.85 < renames[b"rewritten"].similarity < 1.0


def test_a_part_of_the_folder_can_be_compared_alone(place, changed):
    assert told(place.store.diff(changed.id, path="gone")) == {("removed", b"gone"), ("removed", b"gone/file")}
    with pytest.raises(ToolError, match="does not contain nothing"):
        place.store.diff(changed.id, path="nothing")


def test_limits_hold_for_changes_and_for_texts(place):
    place.write("base", "x")
    first = place.take().snapshot
    for number in range(50):
        place.write(f"f{number}", "line\n" * 100)
    diff = place.store.diff(first.id, limits=DiffLimits(changes=10, chars_each=100, chars=300))
    assert (len(diff.changes), diff.total) == (10, 50)
    lengths = [len(change.text) for change in diff.changes]
    assert max(lengths) < 200
    assert lengths[-1] == 0


def test_a_file_too_big_for_text_is_told_by_its_size(place):
    place.write("big", b"line\n" * 300_000)
    first = place.take().snapshot
    place.write("big", b"line\n" * 300_001)
    (change,) = place.store.diff(first.id).changes
    assert change.text == "too big to compare: 1,500,000 → 1,500,005 bytes"


def test_a_file_that_became_a_folder_is_told_as_both(place):
    place.write("x", "file")
    first = place.take().snapshot
    os.unlink(place.root / "x")
    place.write("x/inner", "y")
    assert told(place.store.diff(first.id)) == {("removed", b"x"), ("added", b"x"), ("added", b"x/inner")}


def test_a_renamed_folder_of_many_files_is_told_in_good_time(place):
    for number in range(3_000):
        place.write(f"d/f{number}", f"{number}\n")
    first = place.take().snapshot
    os.rename(place.root / "d", place.root / "e")
    began = time.process_time()
    diff = place.store.diff(first.id)
    assert time.process_time() - began < 20
    renamed = [change for change in diff.changes if change.what is ChangeType.RENAMED]
    assert len(renamed) == 3_000
    assert all(change.path[1:] == (change.old_path or b"")[1:] for change in renamed)


def test_many_files_that_are_nothing_alike_are_not_held_against_each_other_forever(place, monkeypatch):
    for number in range(150):
        place.write(f"old{number}", f"old {number}\n")
    first = place.take().snapshot
    for number in range(150):
        os.unlink(place.root / f"old{number}")
        place.write(f"new{number}", f"new {number}\n")
    calls = []
    monkeypatch.setattr(renames, "_similarity", lambda *pair: calls.append(pair) or 0.0)
    diff = place.store.diff(first.id)
    assert {str(change.what) for change in diff.changes} == {"added", "removed"}
    assert 0 < len(calls) <= 60 * 60
