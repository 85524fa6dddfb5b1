"""What a session knows of a file is its content, not its time stamps."""

from toolyard.dispatch import read_tracker as module
from toolyard.dispatch.read_tracker import Seen


def test_a_file_nobody_has_seen_has_not_changed():
    assert not Seen().changed("s", "/a", b"anything")


def test_other_content_than_last_seen_is_a_change_for_that_session_alone():
    seen = Seen()
    seen.record("s", "/a", b"one")

    assert [seen.changed("s", "/a", b"one"), seen.changed("s", "/a", b"two")] == [False, True]
    assert not seen.changed("other", "/a", b"two")
    assert not seen.changed("s", "/b", b"two")


def test_the_last_content_counts():
    seen = Seen()
    seen.record("s", "/a", b"one")
    seen.record("s", "/a", b"two")

    assert [seen.changed("s", "/a", b"one"), seen.changed("s", "/a", b"two")] == [True, False]


def test_only_so_many_files_are_remembered_the_oldest_forgotten_first(monkeypatch):
    monkeypatch.setattr(module, "_MOST", 2)
    seen = Seen()
    for path in ("/a", "/b", "/a", "/c"):
        seen.record("s", path, b"known")

    assert [seen.changed("s", path, b"other") for path in ("/a", "/b", "/c")] == [True, False, True]
