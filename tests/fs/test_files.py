"""Files are read whole and changed all or nothing, through handles."""

import errno
import fcntl
import os
import stat
import tempfile
import threading
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from toolyard.core.errors import SecurityError, SystemFault, ToolError, ValidationError
from toolyard.core.limits import Limits
from toolyard.fs import files
from toolyard.fs.files import Change, make_folder, move, read, rewrite
from toolyard.fs.mounts import Mounts
from toolyard.fs.roots import Handle
from toolyard.fs.temporary import TEMPORARY_PREFIX

LIMITS = Limits(file_bytes=1000, lock_seconds=0.05)
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


class Place:
    """A workspace in a temporary folder, and the functions under test bound to its paths."""

    def __init__(self, path, mounts):
        self.path = path
        self.mounts = mounts

    def find(self, name):
        return self.mounts.find(self.mounts.clean(name))

    def read(self, name, limits=LIMITS):
        with self.find(name) as target:
            return read(target, limits)

    def write(self, name, data=b"new", limits=LIMITS):
        with self.find(name) as target:
            return rewrite(target, data if callable(data) else lambda before: data, limits)

    def move(self, source, destination, limits=LIMITS):
        with self.find(source) as here, self.find(destination) as there:
            move(here, there, limits)

    def tree(self):
        found = {}
        for folder, folders, names in os.walk(self.path):
            for name in folders + names:
                path = os.path.join(folder, name)
                relative = os.path.relpath(path, self.path)
                if os.path.islink(path):
                    found[relative] = os.readlink(path)
                else:
                    found[relative] = None if os.path.isdir(path) else Path(path).read_bytes()
        return found


@pytest.fixture(autouse=True)
def no_descriptor_is_left_behind():
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.fixture
def ws(tmp_path, no_descriptor_is_left_behind):
    folder = tmp_path.resolve() / "ws"
    folder.mkdir()
    with closing(Mounts(str(folder))) as mounts:
        yield Place(folder, mounts)


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


# Rewriting


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
    monkeypatch.setattr(files, "_drain", lambda fd, path, limits: files.Contents(b"old", of_others(fd)))

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
        files, "rename_without_replacing", full if step == "rename" else files.rename_without_replacing
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

    with pytest.raises(ToolError, match=r"keeps the folder of .* locked") as caught:
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

    assert change == Change(b"old", b"new", os.stat(ws.path / "a"))


def test_temporary_names_are_told_apart_from_the_users(ws, monkeypatch):
    monkeypatch.setattr(files, "_unnamed", lambda folder: (os.open(ws.path / "t", os.O_CREAT | os.O_WRONLY), "t"))
    (ws.path / "a").write_bytes(b"old")

    ws.write("a")

    assert TEMPORARY_PREFIX.startswith(".")
    assert ws.tree() == {"a": b"new"}


# Folders


def test_a_folder_is_made_with_its_parents_once(ws):
    with ws.find("a/b/c") as target:
        assert make_folder(target) is True
    with ws.find("a/b/c") as target:
        assert make_folder(target) is False

    assert ws.tree() == {"a": None, "a/b": None, "a/b/c": None}


def test_no_folder_is_made_where_a_file_stands(ws):
    (ws.path / "a").write_bytes(b"x")

    with ws.find("a") as target, pytest.raises(ToolError, match="is there already"):
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

    with pytest.raises(ToolError, match="b is there already"):
        ws.move("a", "b")
    assert ws.tree() == {"a": b"x", "b": b"y"}


def test_what_appears_at_the_destination_is_kept(ws):
    (ws.path / "a").write_bytes(b"x")
    with ws.find("a") as here, ws.find("b") as there:
        (ws.path / "b").write_bytes(b"theirs")

        with pytest.raises(ToolError, match="is there already"):
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

    monkeypatch.setattr(files, "rename_without_replacing", other_disk)

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
