"""Files are read whole and moved, through handles."""

import errno
import fcntl
import os
from contextlib import closing

import pytest

from toolyard.core.errors import SecurityError, SystemFault, ToolError, ValidationError
from toolyard.core.limits import Limits
from toolyard.files import file_io
from toolyard.files.file_io import make_folder, move, read
from toolyard.files.mounts import Mounts

LIMITS = Limits(file_bytes=1000, lock_seconds=0.05)
pytestmark = pytest.mark.usefixtures("no_descriptor_is_left_behind")


# Reading


def test_a_file_is_read_whole_with_its_status(ws):
    (ws.path / "a").write_bytes(b"one\r\ntwo\xff")

    contents = ws.read("a")

    assert (contents.data, contents.status.st_size) == (b"one\r\ntwo\xff", 8 + 1)


def test_an_empty_file_is_read(ws):
    (ws.path / "a").touch()

    assert ws.read("a").data == b""


def test_a_file_as_large_as_the_limit_is_read_and_a_larger_one_is_not(ws):
    (ws.path / "fits").write_bytes(b"x" * 1000)
    (ws.path / "big").write_bytes(b"x" * 1001)

    assert len(ws.read("fits").data) == 1000
    with pytest.raises(ValidationError, match="has 1,001 bytes; the limit is 1,000"):
        ws.read("big")


def test_a_file_that_does_not_tell_its_size_is_read_up_to_the_limit(ws):
    os.symlink("/proc/self/status", ws.path / "link")
    with closing(Mounts("/proc/self")) as mounts, mounts.find(mounts.clean("status")) as target:
        assert b"Name:" in read(target, Limits()).data
        with pytest.raises(ValidationError, match="the limit is 10"):
            read(target, Limits(file_bytes=10))


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("missing", ToolError, "No such file"),
        ("folder", ToolError, "is a folder"),
        ("pipe", SecurityError, "named pipe"),
    ],
)
def test_what_is_not_a_file_is_refused_without_waiting(ws, name, error, words):
    (ws.path / "folder").mkdir()
    os.mkfifo(ws.path / "pipe")

    with pytest.raises(error, match=words):
        ws.read(name)


def test_a_disk_that_fails_while_reading_is_a_fault_of_the_machine(ws, monkeypatch):
    (ws.path / "a").write_bytes(b"x")

    def broken(fd, size):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "read", broken)

    with pytest.raises(SystemFault, match="Input/output error"):
        ws.read("a")


# Folders


def test_a_folder_is_made_with_its_parents_once(ws):
    with ws.find("a/b/c") as target:
        assert make_folder(target) is True
    with ws.find("a/b/c") as target:
        assert make_folder(target) is False

    assert ws.tree() == {"a": None, "a/b": None, "a/b/c": None}


def test_no_folder_is_made_where_a_file_stands(ws):
    (ws.path / "a").write_bytes(b"x")

    with ws.find("a") as target, pytest.raises(ToolError, match="already exists"):
        make_folder(target)


def test_a_file_that_appears_on_the_way_is_said_to_be_one(ws):
    with ws.find("a/b") as target:
        (ws.path / "a").write_bytes(b"x")

        with pytest.raises(ToolError, match="is a file, not a folder"):
            make_folder(target)


# Moving


def test_files_and_folders_are_moved_and_parents_made(ws):
    (ws.path / "a").write_bytes(b"x")
    (ws.path / "folder").mkdir()
    (ws.path / "folder" / "b").write_bytes(b"y")

    ws.move("a", "new/place/a")
    ws.move("folder", "new/folder")

    assert ws.tree() == {
        "new": None,
        "new/place": None,
        "new/place/a": b"x",
        "new/folder": None,
        "new/folder/b": b"y",
    }


def test_nothing_is_replaced_by_a_move(ws):
    (ws.path / "a").write_bytes(b"x")
    (ws.path / "b").write_bytes(b"y")

    with pytest.raises(ToolError, match="b already exists"):
        ws.move("a", "b")
    assert ws.tree() == {"a": b"x", "b": b"y"}


def test_what_appears_at_the_destination_is_kept(ws):
    (ws.path / "a").write_bytes(b"x")
    with ws.find("a") as here, ws.find("b") as there:
        (ws.path / "b").write_bytes(b"theirs")

        with pytest.raises(ToolError, match="already exists"):
            move(here, there, LIMITS)

    assert ws.tree() == {"a": b"x", "b": b"theirs"}


def test_what_is_not_there_is_not_moved(ws):
    with pytest.raises(ToolError, match="No such file"):
        ws.move("a", "b")


@pytest.mark.parametrize("then", ["replaced", "removed"])
def test_a_source_that_is_no_longer_the_same_is_not_moved(ws, then):
    (ws.path / "a").write_bytes(b"x")
    with ws.find("a") as here, ws.find("b") as there:
        os.rename(ws.path / "a", ws.path / "kept")
        if then == "replaced":
            os.symlink("/etc/passwd", ws.path / "a")

        with pytest.raises(SecurityError, match="was replaced while"):
            move(here, there, LIMITS)

    assert "b" not in ws.tree()


@pytest.mark.parametrize("destination", ["folder/below", "folder/deep/er"])
def test_a_folder_is_not_moved_into_itself(ws, destination):
    (ws.path / "folder").mkdir()

    with pytest.raises(ToolError, match="cannot be moved into itself"):
        ws.move("folder", destination)
    assert ws.tree() == {"folder": None}


def test_the_workspace_itself_is_not_moved(ws):
    with pytest.raises(ToolError):
        ws.move(".", "a")


def test_a_move_between_disks_says_so(ws, monkeypatch):
    (ws.path / "a").write_bytes(b"x")

    def other_disk(*arguments):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(file_io, "rename_without_replacing", other_disk)

    with pytest.raises(ToolError, match="different disks"):
        ws.move("a", "b")


@pytest.mark.parametrize("held", ["here", "there"])
def test_a_move_waits_for_writers_of_both_folders(ws, held):
    (ws.path / "here").mkdir()
    (ws.path / "there").mkdir()
    (ws.path / "here" / "a").write_bytes(b"x")
    holder = os.open(ws.path / held, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)

    with pytest.raises(ToolError, match="locked"):
        ws.move("here/a", "there/a")
    os.close(holder)

    ws.move("here/a", "there/a")
    ws.move("there/a", "there/b")
    assert ws.tree() == {"here": None, "there": None, "there/b": b"x"}
