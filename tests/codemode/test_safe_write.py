"""What is written by handle takes its place whole, or leaves everything as it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolyard.codemode.safe_write import replace_file
from toolyard.files.roots import Root


@pytest.fixture
def folder(tmp_path: Path):
    root = Root(str(tmp_path))
    handle = root.make_folder("a/b")
    root.close()
    yield handle
    os.close(handle)


def test_a_file_takes_the_place_of_another(folder: int, tmp_path: Path) -> None:
    for content in (b"first", b"second"):
        replace_file(folder, "file", content)
        assert (tmp_path / "a/b/file").read_bytes() == content
    assert os.listdir(tmp_path / "a/b") == ["file"]


def test_what_cannot_take_its_place_leaves_nothing_behind(folder: int, tmp_path: Path) -> None:
    (tmp_path / "a/b/taken").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_file(folder, "taken", b"x")
    assert os.listdir(tmp_path / "a/b") == ["taken"]


def test_a_way_that_is_barred_leaves_no_handle_open(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b").symlink_to(tmp_path)
    root = Root(str(tmp_path))
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match=r"It is a link: 'b'"):
        root.make_folder("a/b/c")
    assert set(os.listdir("/proc/self/fd")) <= before
    root.close()
