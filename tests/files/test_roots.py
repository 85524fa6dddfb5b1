"""A root hands out handles to what lies beneath it, and to nothing else."""

import errno
import os
import stat

import pytest

from tests.support.descriptors import count_open
from toolyard.core.errors import SecurityError, ToolError
from toolyard.files.roots import Handle, Root
from toolyard.linux import openat2


@pytest.fixture(params=[True, False], ids=["kernel", "walk"])
def root(request, tmp_path):
    if request.param and not openat2.is_available():
        pytest.skip("this kernel has no openat2")
    folder = tmp_path / "ws"
    folder.mkdir()
    root = Root(str(folder), kernel=request.param)
    yield root
    root.close()


def put(root, name, text="content"):
    path = os.path.join(root.path, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def test_a_handle_knows_where_it_really_lies_and_what_it_is(root):
    path = put(root, "a/file")
    os.symlink("a/file", os.path.join(root.path, "link"))

    with root.open("link") as handle:
        assert (handle.real, handle.is_file, handle.is_folder, handle.is_gone) == (path, True, False, False)
        assert stat.S_ISREG(handle.status.st_mode)


def test_a_handle_is_reopened_as_the_very_same_object_after_its_name_was_taken(root):
    path = put(root, "file", "first")
    with root.open("file") as handle:
        os.unlink(path)
        put(root, "file", "second")

        fd = handle.reopen_fd(os.O_RDONLY)

    assert os.read(fd, 100) == b"first"
    os.close(fd)


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_only_files_and_folders_are_reopened(root, kind, tmp_path):
    special = os.path.join(root.path, "special")
    if kind == "pipe":
        os.mkfifo(special)
        handle = root.open("special")
    else:
        os.symlink("nowhere", special)
        handle = Handle(os.open(special, os.O_PATH | os.O_NOFOLLOW))

    with handle, pytest.raises(SecurityError, match="only regular files are opened"):
        handle.reopen_fd(os.O_RDONLY)


def test_reopening_never_waits_for_data(root):
    put(root, "file")
    with root.open("file") as handle:
        fd = handle.reopen_fd(os.O_RDONLY)

    assert not os.get_blocking(fd)
    assert not os.get_inheritable(fd)
    os.close(fd)


def test_closing_twice_is_harmless(root):
    handle = root.open(".")
    before = count_open()

    handle.close()
    handle.close()

    assert count_open() == before - 1


def test_a_file_whose_name_ends_like_a_deleted_one_is_not_taken_for_gone(root):
    path = put(root, "report (deleted)")

    with root.open("report (deleted)") as handle:
        assert (handle.real, handle.is_gone) == (path, False)


def test_a_removed_file_is_gone_even_when_another_bears_the_marked_name(root):
    path = put(root, "report")
    put(root, "report (deleted)", "another")
    with root.open("report") as handle:
        os.unlink(path)
        fd = os.dup(handle.fd)

    with Handle(fd) as late:
        assert late.is_gone


def test_a_file_that_is_replaced_while_it_is_opened_is_looked_up_again(root, monkeypatch):
    path = put(root, "file", "old")
    os.symlink("file", os.path.join(root.path, "link"))  # where it lies has to be read from the handle
    answers = iter([True, True, False])
    monkeypatch.setattr(Handle, "is_gone", property(lambda self: next(answers)))
    before = count_open()

    with root.open("link") as handle:
        assert handle.real == path

    assert (count_open(), next(answers, None)) == (before, None)


def test_a_file_that_is_replaced_for_ever_counts_as_missing(root, monkeypatch):
    put(root, "file")
    os.symlink("file", os.path.join(root.path, "link"))
    monkeypatch.setattr(Handle, "is_gone", property(lambda self: True))
    before = count_open()

    with pytest.raises(FileNotFoundError):
        root.open("link")

    assert count_open() == before


def test_folders_are_opened_for_reading_without_any_link_on_the_way(root):
    put(root, "a/b/file")
    os.symlink("a", os.path.join(root.path, "link"))

    fd = root.open_folder("a/b")

    assert os.listdir(fd) == ["file"]
    os.close(fd)
    for path, number in (("link/b", errno.ELOOP), ("a/b/file", errno.ENOTDIR), ("a/c", errno.ENOENT)):
        with pytest.raises(OSError) as caught:
            root.open_folder(path)
        assert caught.value.errno == number


def test_a_closed_root_opens_nothing_even_when_its_number_is_used_again(root, tmp_path):
    put(root, "file")
    number = root.fd
    root.close()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("secret")
    other = os.open(tmp_path / "other", os.O_PATH)
    assert other == number  # the lowest free number, as the kernel promises

    with pytest.raises(OSError) as caught:
        root.open("file")

    assert caught.value.errno == errno.EBADF
    os.close(other)


def test_a_root_stays_the_folder_it_was_when_its_name_is_given_to_another(root, tmp_path):
    put(root, "file", "ours")
    os.rename(root.path, tmp_path / "moved")
    os.mkdir(root.path)
    put(root, "file", "theirs")

    with root.open("file") as handle:
        fd = handle.reopen_fd(os.O_RDONLY)

    assert os.read(fd, 100) == b"ours"
    os.close(fd)


@pytest.mark.parametrize("name", ["missing", "file"])
def test_a_root_must_be_a_folder(tmp_path, name):
    (tmp_path / "file").write_text("x")

    with pytest.raises(ToolError, match=name):
        Root(str(tmp_path / name))


def test_a_root_given_through_a_link_knows_its_real_path(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    root = Root(str(tmp_path / "link"))

    assert root.path == os.path.realpath(tmp_path / "real")
    root.close()


def test_a_descriptor_that_cannot_be_looked_at_is_closed(monkeypatch):
    fd = os.open("/", os.O_PATH)
    monkeypatch.setattr(os, "fstat", lambda number: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))

    with pytest.raises(OSError, match="broken"):
        Handle(fd)
    monkeypatch.undo()

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
