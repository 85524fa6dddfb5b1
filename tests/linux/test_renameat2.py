"""Moving a name never replaces what stands at the other, whether the kernel helps or not."""

import ctypes
import errno
import os
from types import SimpleNamespace

import pytest

from toolyard.linux import renameat2 as module
from toolyard.linux.renameat2 import rename_without_replacing


@pytest.fixture
def folder(tmp_path):
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.fixture(params=[None, errno.ENOSYS, errno.EINVAL], ids=["flag", "old-kernel", "file-system-without-it"])
def kernel(request, monkeypatch):
    """The system call as it is, or refused as old kernels and some file systems refuse it."""
    if request.param is not None:

        def refuse(*arguments):
            ctypes.set_errno(request.param)
            return -1

        monkeypatch.setattr(module, "LIBC", SimpleNamespace(renameat2=refuse))


@pytest.mark.usefixtures("kernel")
def test_a_file_moves_where_nothing_stands(folder, tmp_path):
    (tmp_path / "a").write_text("content")

    rename_without_replacing("a", folder, "b", folder)

    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"b": "content"}


@pytest.mark.usefixtures("kernel")
def test_a_folder_moves_with_what_it_holds(folder, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_text("content")

    rename_without_replacing("a", folder, "b", folder)

    assert (tmp_path / "b" / "x").read_text() == "content"
    assert not (tmp_path / "a").exists()


@pytest.mark.usefixtures("kernel")
def test_a_link_moves_as_itself(folder, tmp_path):
    (tmp_path / "a").symlink_to("/nowhere")

    rename_without_replacing("a", folder, "b", folder)

    assert os.readlink(tmp_path / "b") == "/nowhere"
    assert not os.path.lexists(tmp_path / "a")


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("taken", ["file", "folder", "empty-folder", "dangling-link"])
@pytest.mark.parametrize("moved", ["file", "folder"])
def test_nothing_is_ever_replaced(folder, tmp_path, taken, moved):
    if moved == "file":
        (tmp_path / "a").write_text("moved")
    else:
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "x").write_text("moved")
    target = tmp_path / "b"
    if taken == "file":
        target.write_text("kept")
    elif taken == "dangling-link":
        target.symlink_to("nowhere")
    else:
        target.mkdir()
        if taken == "folder":
            (target / "kept").write_text("kept")
    before = os.lstat(target).st_ino

    with pytest.raises(OSError) as caught:
        rename_without_replacing("a", folder, "b", folder)

    assert caught.value.errno in {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR}
    assert os.lstat(target).st_ino == before
    assert os.path.lexists(tmp_path / "a")


@pytest.mark.usefixtures("kernel")
def test_a_missing_source_is_reported(folder):
    with pytest.raises(FileNotFoundError):
        rename_without_replacing("a", folder, "b", folder)
