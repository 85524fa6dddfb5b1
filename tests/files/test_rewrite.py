"""A file is changed all or nothing, and nothing but its content changes."""

import errno
import os
import stat
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from toolyard.core.errors import SecurityError, SystemFault, ToolError, ValidationError
from toolyard.core.limits import Limits
from toolyard.files import file_io
from toolyard.files.file_io import rewrite
from toolyard.files.mounts import Mounts

LIMITS = Limits(file_bytes=1000, lock_seconds=0.05)
pytestmark = pytest.mark.usefixtures("no_descriptor_is_left_behind")
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


@pytest.fixture(params=[None, errno.EOPNOTSUPP, errno.EISDIR], ids=["unnamed", "named", "named-on-old-kernels"])
def temporary(request, monkeypatch):
    """Files are first written without a name, or under a temporary one where the file system cannot do that."""
    if request.param is None:
        return
    real = os.open

    def refusing(path, flags, *rest, **options):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(request.param, os.strerror(request.param))
        return real(path, flags, *rest, **options)

    monkeypatch.setattr(os, "open", refusing)


@pytest.mark.usefixtures("temporary")
def test_a_new_file_is_created_with_its_folders(ws):
    change = ws.write("a/b/c.txt", b"data")

    assert (change.before, change.after, change.status.st_ino) == (
        None,
        b"data",
        os.stat(ws.path / "a/b/c.txt").st_ino,
    )
    assert ws.tree() == {"a": None, "a/b": None, "a/b/c.txt": b"data"}


@pytest.mark.usefixtures("temporary")
def test_a_file_is_replaced_by_what_is_made_of_its_content(ws):
    (ws.path / "a").write_bytes(b"old")

    change = ws.write("a", lambda before: before.data + b" and new")

    assert (change.before, change.after) == (b"old", b"old and new")
    assert ws.tree() == {"a": b"old and new"}


@pytest.mark.usefixtures("temporary")
def test_a_new_file_gets_the_mode_the_user_chose_for_new_files(ws):
    before = os.umask(0o027)
    try:
        ws.write("a")
    finally:
        os.umask(before)

    assert stat.S_IMODE(os.stat(ws.path / "a").st_mode) == 0o640


@pytest.mark.usefixtures("temporary")
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o666, 0o640])
def test_the_mode_is_kept(ws, mode):
    (ws.path / "a").write_bytes(b"old")
    os.chmod(ws.path / "a", mode)

    ws.write("a")

    assert stat.S_IMODE(os.stat(ws.path / "a").st_mode) == mode


@pytest.mark.usefixtures("temporary")
def test_set_user_and_group_id_are_dropped(ws):
    (ws.path / "a").write_bytes(b"old")
    os.chmod(ws.path / "a", 0o6755)

    ws.write("a")

    assert stat.S_IMODE(os.stat(ws.path / "a").st_mode) == 0o755


@as_root
@pytest.mark.usefixtures("temporary")
def test_the_owner_is_kept(ws):
    (ws.path / "a").write_bytes(b"old")
    os.chown(ws.path / "a", 1234, 2345)

    ws.write("a")

    now = os.stat(ws.path / "a")
    assert (now.st_uid, now.st_gid) == (1234, 2345)


def test_a_group_that_cannot_be_kept_takes_its_rights_with_it(ws, monkeypatch):
    (ws.path / "a").write_bytes(b"old")
    os.chmod(ws.path / "a", 0o664)
    real = os.fstat

    def refuse(fd, owner, group):
        raise PermissionError(errno.EPERM, "not yours to give")

    def of_others(fd):
        status = real(fd)
        return os.stat_result((*status[:4], status.st_uid + 1, status.st_gid + 1, *status[6:]))

    monkeypatch.setattr(os, "fchown", refuse)
    monkeypatch.setattr(file_io, "_read_fd", lambda fd, path, limits: file_io.Contents(b"old", of_others(fd)))

    ws.write("a")

    assert stat.S_IMODE(os.stat(ws.path / "a").st_mode) == 0o644


@pytest.mark.usefixtures("temporary")
def test_extended_attributes_are_kept(ws):
    (ws.path / "a").write_bytes(b"old")
    try:
        os.setxattr(ws.path / "a", "user.first", b"1")
        os.setxattr(ws.path / "a", "user.second", b"2")
    except OSError:
        pytest.skip("this file system has no extended attributes")

    ws.write("a")

    kept = {name: os.getxattr(ws.path / "a", name) for name in os.listxattr(ws.path / "a")}
    assert kept == {"user.first": b"1", "user.second": b"2"}


def test_an_attribute_that_cannot_be_set_does_not_cost_the_others_and_capabilities_go(ws, monkeypatch):
    (ws.path / "a").write_bytes(b"old")
    kept = {}

    def setxattr(fd, name, value):
        if name == "security.odd":
            raise OSError(errno.EPERM, "no")
        kept[name] = value

    monkeypatch.setattr(
        os, "listxattr", lambda path, follow_symlinks: ["security.odd", "security.capability", "user.x"]
    )
    monkeypatch.setattr(os, "getxattr", lambda path, name, follow_symlinks: name.encode())
    monkeypatch.setattr(os, "setxattr", setxattr)

    ws.write("a")

    assert kept == {"user.x": b"user.x"}


@pytest.mark.parametrize("mode", [0o444, 0o555, 0o400])
def test_a_file_marked_read_only_is_refused_even_to_root(ws, mode):
    (ws.path / "a").write_bytes(b"old")
    os.chmod(ws.path / "a", mode)

    with pytest.raises(ToolError, match="marked read-only"):
        ws.write("a")

    assert ws.tree() == {"a": b"old"}


@contextmanager
def ordinary_user():
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@as_root
def test_a_file_we_may_not_write_is_not_replaced_though_its_folder_is_ours():
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        (folder / "a").write_bytes(b"old")
        os.chown(folder, NOBODY, NOBODY)
        mounts = Mounts(name)

        with closing(mounts), ordinary_user(), mounts.find(mounts.clean("a")) as target:  # noqa: SIM117
            with pytest.raises(ToolError, match="denies access"):
                rewrite(target, lambda before: b"new", LIMITS)

        assert (folder / "a").read_bytes() == b"old"


def test_a_running_program_is_replaced(ws, monkeypatch):
    (ws.path / "a").write_bytes(b"old")
    real = os.open

    def busy(path, flags, *rest, **options):
        if path == "a" and flags & os.O_ACCMODE == os.O_RDWR:
            raise OSError(errno.ETXTBSY, "Text file busy")
        return real(path, flags, *rest, **options)

    monkeypatch.setattr(os, "open", busy)

    assert ws.write("a").before == b"old"


@pytest.mark.usefixtures("temporary")
@pytest.mark.parametrize("old", [b"old", None], ids=["replacing", "creating"])
@pytest.mark.parametrize("step", ["write", "fsync", "rename", "link"])
def test_a_failure_at_any_step_leaves_the_old_content_and_no_temporary_file(ws, monkeypatch, step, old):
    if old is not None:
        (ws.path / "a").write_bytes(old)

    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, full)
    monkeypatch.setattr(
        file_io, "rename_without_replacing", full if step == "rename" else file_io.rename_without_replacing
    )

    try:
        ws.write("a")
    except SystemFault as error:
        assert "disk is full" in error.message
        assert ws.tree() == ({} if old is None else {"a": old})
    else:  # this step is not on this way
        assert ws.tree() == {"a": b"new"}


@pytest.mark.usefixtures("temporary")
def test_an_interrupt_while_writing_leaves_no_temporary_file(ws, monkeypatch):
    (ws.path / "a").write_bytes(b"old")

    def interrupted(fd):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)

    with pytest.raises(KeyboardInterrupt):
        ws.write("a")
    assert ws.tree() == {"a": b"old"}


def test_the_disk_has_the_content_before_the_name_does(ws, monkeypatch):
    (ws.path / "a").write_bytes(b"old")
    steps = []
    for step in ("fsync", "rename", "link"):
        real = getattr(os, step)
        monkeypatch.setattr(os, step, lambda *a, r=real, s=step, **k: (steps.append(s), r(*a, **k))[1])

    ws.write("a")

    assert steps == ["fsync", "link", "rename"]


@pytest.mark.usefixtures("temporary")
def test_a_file_that_appears_while_another_is_created_is_kept(ws, monkeypatch):
    real = os.fsync

    def late(fd):
        (ws.path / "a").write_bytes(b"theirs")
        real(fd)

    monkeypatch.setattr(os, "fsync", late)

    with pytest.raises(ToolError, match="appeared while it was being created"):
        ws.write("a")
    assert ws.tree() == {"a": b"theirs"}


def test_a_refusal_of_the_transform_leaves_everything_as_it_is(ws):
    (ws.path / "a").write_bytes(b"old")

    def refuse(before):
        raise ToolError("no")

    for name in ("a", "new", "deep/er/new"):
        with pytest.raises(ToolError, match="no"):
            ws.write(name, refuse)

    assert ws.tree() == {"a": b"old"}


def test_content_over_the_limit_is_refused_and_leaves_no_folders(ws):
    (ws.path / "a").write_bytes(b"old")

    for name in ("a", "b", "deep/er/new"):
        with pytest.raises(ValidationError, match="has 1,001 bytes"):
            ws.write(name, b"x" * 1001)

    assert ws.tree() == {"a": b"old"}


def test_a_file_over_the_limit_is_not_edited(ws):
    (ws.path / "a").write_bytes(b"x" * 1001)

    with pytest.raises(ValidationError, match="has 1,001 bytes"):
        ws.write("a")


@pytest.mark.parametrize(
    ("name", "error"),
    [("folder", ToolError), ("pipe", SecurityError), (".", ToolError)],
    ids=["folder", "pipe", "root"],
)
def test_only_files_are_replaced(ws, name, error):
    (ws.path / "folder").mkdir()
    os.mkfifo(ws.path / "pipe")

    with pytest.raises(error):
        ws.write(name)
