"""Whatever happens to links, folders and locks meanwhile, a change lands where it was meant to or nowhere."""

import fcntl
import os
import threading

import pytest

from toolyard.core.errors import SecurityError, ToolError
from toolyard.core.limits import Limits
from toolyard.files import file_io
from toolyard.files.file_io import RewriteResult, make_folder, rewrite
from toolyard.files.roots import Handle
from toolyard.files.temp_names import TEMPORARY_PREFIX

LIMITS = Limits(file_bytes=1000, lock_seconds=0.05)
pytestmark = pytest.mark.usefixtures("no_descriptor_is_left_behind")


def test_a_link_swapped_in_after_the_look_up_is_not_written_through(ws, tmp_path):
    (tmp_path / "outside").write_bytes(b"outside")
    (ws.path / "a").write_bytes(b"old")
    with ws.find("a") as target:
        os.unlink(ws.path / "a")
        os.symlink(tmp_path / "outside", ws.path / "a")

        with pytest.raises(SecurityError, match="was replaced while"):
            rewrite(target, lambda before: b"new", LIMITS)

    assert (tmp_path / "outside").read_bytes() == b"outside"


def test_a_link_swapped_in_during_the_transform_is_replaced_itself(ws, tmp_path):
    (tmp_path / "outside").write_bytes(b"outside")
    (ws.path / "a").write_bytes(b"old")

    def swap(before):
        os.unlink(ws.path / "a")
        os.symlink(tmp_path / "outside", ws.path / "a")
        return b"new"

    ws.write("a", swap)

    assert (tmp_path / "outside").read_bytes() == b"outside"
    assert ws.tree() == {"a": b"new"}


@pytest.mark.parametrize("name", ["folder/a", "folder/new"])
def test_a_folder_swapped_for_a_link_is_not_entered(ws, tmp_path, name):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a").write_bytes(b"outside")
    (ws.path / "folder").mkdir()
    (ws.path / "folder" / "a").write_bytes(b"old")
    with ws.find(name) as target:
        os.rename(ws.path / "folder", ws.path / "moved")
        os.symlink(tmp_path / "outside", ws.path / "folder")

        with pytest.raises(SecurityError):
            rewrite(target, lambda before: b"new", LIMITS)

    assert [p.name for p in (tmp_path / "outside").iterdir()] == ["a"]
    assert (tmp_path / "outside" / "a").read_bytes() == b"outside"


def test_a_folder_moved_out_of_the_workspace_is_not_written_into_its_top(ws, tmp_path):
    (ws.path / "folder").mkdir()
    with ws.find("folder/new") as target:
        target.handle.close()
        (tmp_path / "away").mkdir()
        target.handle = Handle(os.open(tmp_path / "away", os.O_PATH))

        with pytest.raises(SecurityError):
            rewrite(target, lambda before: b"new", LIMITS)

    assert ws.tree() == {"folder": None}


def test_missing_folders_are_not_made_through_a_link_that_appears(ws, tmp_path):
    (tmp_path / "outside").mkdir()
    with ws.find("a/b/c") as target:
        os.symlink(tmp_path / "outside", ws.path / "a")

        with pytest.raises(SecurityError, match="was replaced while"):
            rewrite(target, lambda before: b"new", LIMITS)
        with pytest.raises(SecurityError, match="was replaced while"):
            make_folder(target)

    assert list((tmp_path / "outside").iterdir()) == []


def test_a_link_inside_is_followed_to_the_file_it_names_and_stays_a_link(ws):
    (ws.path / "folder").mkdir()
    (ws.path / "folder" / "a").write_bytes(b"old")
    os.symlink("folder/a", ws.path / "link")

    ws.write("link")

    assert ws.tree() == {"folder": None, "folder/a": b"new", "link": "folder/a"}


def test_another_name_of_a_file_keeps_the_old_content(ws):
    (ws.path / "a").write_bytes(b"old")
    os.link(ws.path / "a", ws.path / "b")

    ws.write("a")

    assert ws.tree() == {"a": b"new", "b": b"old"}


def test_names_that_end_like_deleted_ones_are_written(ws):
    (ws.path / "x (deleted)").write_bytes(b"old")

    ws.write("x (deleted)")
    ws.write("y (deleted)")

    assert ws.tree() == {"x (deleted)": b"new", "y (deleted)": b"new"}


def test_a_folder_that_somebody_keeps_locked_is_given_up_in_time(ws):
    (ws.path / "a").write_bytes(b"old")
    holder = os.open(ws.path, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)

    with pytest.raises(ToolError, match=r"has the folder of .* locked") as caught:
        ws.write("a")

    os.close(holder)
    assert caught.value.retryable
    assert ws.write("a").before == b"old"


def test_parallel_rewrites_of_one_file_all_count(ws):
    (ws.path / "n").write_bytes(b"0")
    limits = Limits()
    threads = [
        threading.Thread(target=ws.write, args=("n", lambda before: b"%d" % (int(before.data) + 1), limits))
        for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert ws.tree() == {"n": b"16"}


def test_a_change_says_what_was_and_what_is(ws):
    (ws.path / "a").write_bytes(b"old")

    change = ws.write("a")

    assert change == RewriteResult(b"old", b"new", os.stat(ws.path / "a"))


def test_temporary_names_are_told_apart_from_the_users(ws, monkeypatch):
    monkeypatch.setattr(
        file_io, "_create_unnamed_file", lambda folder: (os.open(ws.path / "t", os.O_CREAT | os.O_WRONLY), "t")
    )
    (ws.path / "a").write_bytes(b"old")

    ws.write("a")

    assert TEMPORARY_PREFIX.startswith(".")
    assert ws.tree() == {"a": b"new"}
