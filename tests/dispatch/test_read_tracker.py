"""What a session knows of a file is its content, not its time stamps."""

from toolyard.dispatch import read_tracker as module
from toolyard.dispatch.read_tracker import ReadTracker


def test_a_file_nobody_has_seen_has_not_changed():
    assert not ReadTracker().has_changed("s", "/a", b"anything")


def test_other_content_than_last_seen_is_a_change_for_that_session_alone():
    seen = ReadTracker()
    seen.record("s", "/a", b"one")

    assert [seen.has_changed("s", "/a", b"one"), seen.has_changed("s", "/a", b"two")] == [False, True]
    assert not seen.has_changed("other", "/a", b"two")
    assert not seen.has_changed("s", "/b", b"two")


def test_the_last_content_counts():
    seen = ReadTracker()
    seen.record("s", "/a", b"one")
    seen.record("s", "/a", b"two")

    assert [seen.has_changed("s", "/a", b"one"), seen.has_changed("s", "/a", b"two")] == [True, False]


def test_only_so_many_files_are_remembered_the_oldest_forgotten_first(monkeypatch):
    monkeypatch.setattr(module, "_MAX_FILES", 2)
    seen = ReadTracker()
    for path in ("/a", "/b", "/a", "/c"):
        seen.record("s", path, b"known")

    assert [seen.has_changed("s", path, b"other") for path in ("/a", "/b", "/c")] == [True, False, True]
