"""openat2 keeps lookups beneath a folder, and says so by error numbers."""

import errno
import os

import pytest

from tests.support.descriptors import count_open
from toolyard.linux import openat2 as module
from toolyard.linux.openat2 import (
    RESOLVE_BENEATH,
    RESOLVE_NO_MAGICLINKS,
    RESOLVE_NO_SYMLINKS,
    is_available,
    openat2,
)

needs_openat2 = pytest.mark.skipif(not is_available(), reason="this kernel has no openat2")
BENEATH = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "file").write_text("inside")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "out").symlink_to("/etc")
    fd = os.open(tmp_path, os.O_PATH)
    yield fd
    os.close(fd)


@needs_openat2
def test_a_file_beneath_is_opened_and_not_inherited(folder):
    fd = openat2(folder, "file", os.O_RDONLY, BENEATH)

    assert (os.read(fd, 100), os.get_inheritable(fd)) == (b"inside", False)
    os.close(fd)


@needs_openat2
@pytest.mark.parametrize(
    ("path", "resolve", "number"),
    [
        ("..", BENEATH, errno.EXDEV),
        ("/etc/passwd", BENEATH, errno.EXDEV),
        ("out/passwd", BENEATH, errno.EXDEV),
        ("link", BENEATH | RESOLVE_NO_SYMLINKS, errno.ELOOP),
        ("missing", BENEATH, errno.ENOENT),
        ("file/x", BENEATH, errno.ENOTDIR),
        ("", BENEATH, errno.ENOENT),
    ],
)
def test_a_lookup_that_is_forbidden_or_fails_raises_its_error(folder, path, resolve, number):
    with pytest.raises(OSError) as caught:
        openat2(folder, path, os.O_PATH, resolve)

    assert (caught.value.errno, caught.value.filename) == (number, path)


@needs_openat2
def test_magic_links_are_refused(tmp_path):
    fd = os.open("/proc/self/fd", os.O_PATH)
    try:
        with pytest.raises(OSError) as caught:
            openat2(fd, str(fd), os.O_PATH, RESOLVE_NO_MAGICLINKS)
    finally:
        os.close(fd)

    assert caught.value.errno == errno.ELOOP


@needs_openat2
def test_names_that_are_not_utf8_are_opened(tmp_path):
    name = os.fsdecode(b"caf\xe9")
    (tmp_path / name).write_text("x")
    folder = os.open(tmp_path, os.O_PATH)

    fd = openat2(folder, name, os.O_RDONLY, BENEATH)

    assert os.read(fd, 1) == b"x"
    os.close(fd)
    os.close(folder)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG])
def test_a_kernel_or_filter_that_refuses_the_call_counts_as_not_having_it(monkeypatch, number):
    def refuse(*arguments):
        raise OSError(number, "refused")

    monkeypatch.setattr(module, "openat2", refuse)

    assert is_available.__wrapped__() is False


def test_an_unexpected_error_while_probing_is_not_hidden(monkeypatch):
    def fail(*arguments):
        raise OSError(errno.EMFILE, "too many")

    monkeypatch.setattr(module, "openat2", fail)
    before = count_open()

    with pytest.raises(OSError, match="too many"):
        is_available.__wrapped__()
    assert count_open() == before
