"""What the operating system said becomes an error that tells what to do next."""

import errno
import json
import os
import stat

import pytest

from toolyard.core.errors import SecurityError, SystemFault, ToolError, ValidationError
from toolyard.files.os_errors import explain, link_escape_error, not_a_file_error, printable_name, replaced_error


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (errno.EXDEV, SecurityError, "leads out of its allowed folder"),
        (errno.ELOOP, SecurityError, "leads out of its allowed folder"),
        (errno.ENOENT, ToolError, "No such file or folder"),
        (errno.ENOTDIR, ToolError, "is a file, not a folder"),
        (errno.EACCES, ToolError, "denies access"),
        (errno.EPERM, ToolError, "denies access"),
        (errno.ENAMETOOLONG, ValidationError, "too long"),
        (errno.ENOSPC, SystemFault, "disk is full"),
        (errno.EDQUOT, SystemFault, "disk is full"),
        (errno.EROFS, ToolError, "read-only file system"),
        (errno.EEXIST, ToolError, "already exists"),
        (errno.EISDIR, ToolError, "is a folder"),
        (errno.EIO, SystemFault, "Input/output error"),
        (errno.EMFILE, SystemFault, "no file descriptors left"),
    ],
)
def test_each_error_number_has_its_error_and_a_hint(number, kind, words):
    error = explain(OSError(number, os.strerror(number)), "/ws/a")

    assert type(error) is kind
    assert words in error.message
    assert error.hint


def test_an_error_without_a_number_is_still_a_fault_of_ours():
    error = explain(OSError("odd"), "/ws/a")

    assert (type(error), error.message, error.retryable) == (SystemFault, "/ws/a: odd.", True)


@pytest.mark.parametrize(
    ("mode", "kind", "words"),
    [
        (stat.S_IFDIR, ToolError, "is a folder, not a file"),
        (stat.S_IFIFO, SecurityError, "is a named pipe"),
        (stat.S_IFSOCK, SecurityError, "is a socket"),
        (stat.S_IFCHR, SecurityError, "is a device"),
        (stat.S_IFBLK, SecurityError, "is a device"),
        (stat.S_IFLNK, SecurityError, "is a link that leads nowhere"),
        (0, SecurityError, "is a special file"),
    ],
)
def test_what_is_not_a_file_is_named(mode, kind, words):
    error = not_a_file_error(mode | 0o644, "/ws/a")

    assert type(error) is kind
    assert words in error.message


def test_links_out_and_swaps_are_security_errors():
    assert [type(error) for error in (link_escape_error("/ws/a"), replaced_error("/ws/a"))] == [
        SecurityError,
        SecurityError,
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain name.txt", "plain name.txt"),
        ("caf\u00e9 \u6f22", "caf\u00e9 \u6f22"),
        (os.fsdecode(b"caf\xe9"), "caf\\xe9"),
    ],
)
def test_names_are_shown_so_that_they_can_be_sent(name, text):
    assert printable_name(name) == text
    assert json.dumps(printable_name(name), ensure_ascii=False).encode("utf-8")
