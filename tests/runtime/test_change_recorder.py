"""The warden's record of one run: what it takes, its limits, and how often it tells a path. No kernel is asked."""

import os

import pytest

from toolyard_runtime import change_recorder, protocol
from toolyard_runtime.change_recorder import ChangeRecorder


@pytest.fixture
def recorder(tmp_path):
    nobody = os.open(os.devnull, os.O_RDONLY)
    recording = {"filter": b"", "seccomp": -1, "calls": {}, "roots": [str(tmp_path)]}
    made = ChangeRecorder(nobody, recording)
    yield made
    made.close()


def change(recorder, folder, *names):
    recorder._record([(os.fsencode(folder), os.fsencode(name), False) for name in names], are_moved=False)


def told(recorder, folder, **options):
    """The paths that are handed out; those of trees end with a slash."""
    found = []
    for body in recorder.pop_frame_bodies(**options):
        at = 0
        while at < len(body):
            _, is_tree, length = protocol.CHANGE_HEADER.unpack_from(body, at)
            at += protocol.CHANGE_HEADER.size
            found.append(os.fsdecode(body[at : at + length])[len(str(folder)) + 1 :] + "/" * is_tree)
            at += length
    return found


def test_paths_elsewhere_are_left_out(recorder, tmp_path):
    change(recorder, tmp_path, "a")
    change(recorder, tmp_path.parent, "b", f"{tmp_path.name}-not")
    assert told(recorder, tmp_path) == ["a"]


def test_a_path_that_changes_all_the_time_is_told_now_and_then_and_at_the_end(recorder, tmp_path, monkeypatch):
    now = 10**18
    monkeypatch.setattr(change_recorder, "time_ns", lambda: now)
    change(recorder, tmp_path, "a", "a")
    assert told(recorder, tmp_path) == ["a"]
    change(recorder, tmp_path, "a")
    assert (recorder.seconds_until_due, told(recorder, tmp_path)) == (change_recorder.REPEAT_SECONDS, [])
    now += 10**9
    assert told(recorder, tmp_path) == ["a"]
    change(recorder, tmp_path, "a")
    assert told(recorder, tmp_path, is_final=True) == ["a"]


@pytest.mark.parametrize("limit", ["MOST_PATHS", "MOST_BYTES"])
def test_past_its_limit_folders_are_recorded_and_past_theirs_the_record_is_given_up(
    recorder, tmp_path, monkeypatch, limit
):
    room = {"MOST_PATHS": 2, "MOST_BYTES": 2 * len(os.fsencode(tmp_path / "d1/a")) + 1}[limit]
    monkeypatch.setattr(change_recorder, limit, room)
    monkeypatch.setattr(change_recorder, "MOST_FOLDERS", 2)
    for folder in ("d1", "d2", "d3"):
        (tmp_path / folder).mkdir()
    change(recorder, tmp_path, "d1/a", "d1/b", "d1/c", "d2/a", "d2/b")
    assert told(recorder, tmp_path) == ["d1/a", "d1/b", "d1/", "d2/"]
    assert recorder.is_complete
    change(recorder, tmp_path, "d3/a")
    assert (told(recorder, tmp_path), recorder.is_complete) == ([], False)


def test_batches_are_small(recorder, tmp_path, monkeypatch):
    monkeypatch.setattr(change_recorder, "_BATCH_BYTES", 100)
    change(recorder, tmp_path, *map(str, range(100)))
    bodies = recorder.pop_frame_bodies()
    assert len(bodies) > 10
    assert max(map(len, bodies)) < 100 + 300


def test_other_spellings_of_a_folder_are_not_remembered_forever(recorder, tmp_path, monkeypatch):
    monkeypatch.setattr(change_recorder, "BATCH_SECONDS", 1_000)
    most = change_recorder._MOST_REMEMBERED
    change(recorder, tmp_path, "first")
    for many in range(most * 3):
        change(recorder, tmp_path.parent, f"{'./' * (many + 1)}x")
        assert len(recorder._folders) <= most


def test_where_a_folder_lies_is_forgotten_soon_though_there_is_no_news(recorder, tmp_path, monkeypatch):
    now = 1_000.0
    monkeypatch.setattr(change_recorder, "monotonic", lambda: now)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("a")
    change(recorder, tmp_path, "link/x")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("b")  # by somebody who is not recorded here
    now += change_recorder.BATCH_SECONDS
    change(recorder, tmp_path, "link/y")
    assert told(recorder, tmp_path) == ["a/x", "b/y"]
