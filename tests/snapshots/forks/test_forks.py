"""A fork is a folder of one's own: it shows a snapshot, keeps its changes to itself, and goes without a trace."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading

import pytest

from toolyard.core.errors import SystemFault
from toolyard.core.limits import DEFAULT_LIMITS
from toolyard.files.file_io import read, rewrite
from toolyard.files.mounts import Mounts
from toolyard.sandbox.backends.bubblewrap import bubblewrap_sandbox, find_bubblewrap
from toolyard.sandbox.spec import RunKind, RunRequest, SandboxSpec
from toolyard.snapshots import ChangeType as Kind
from toolyard.snapshots.forks import ForkChange, ForkKind, Forks


def everything(root):
    """By path: the mode and the content of all there is."""
    found = {}
    root = os.fsencode(root)
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, root)
            if os.path.islink(path):
                found[relative] = os.readlink(path)
            elif os.path.isdir(path):
                found[relative] = os.stat(path).st_mode
            else:
                with open(path, "rb") as file:
                    found[relative] = os.stat(path).st_mode, file.read()
    return found


@pytest.fixture
def filled(yard):
    yard.write("f", "old\n")
    yard.write("script", "#!/bin/sh\n", mode=0o755)
    yard.write("d/e/g", "deep\n")
    yard.write("d/e/h", "deeper\n")
    yard.write(b"\xff\xfe", "not UTF-8\n")
    yard.write("turns/into/file", "x")
    yard.write("file-turns", "x")
    (yard.root / "empty").mkdir()
    (yard.root / "link").symlink_to("f")
    (yard.root / "round").symlink_to("round")
    return yard


def test_a_fork_shows_the_snapshot_whatever_became_of_the_folder(filled):
    before = everything(filled.root)
    snapshot = filled.take()
    filled.write("f", "newer\n")
    os.unlink(filled.root / "d/e/g")
    fork = filled.fork(snapshot)
    assert everything(fork.path) == before
    assert (fork.changes(), fork.missing) == ([], ())


def test_what_is_done_in_a_fork_stays_in_it(filled):
    before = everything(filled.root)
    one = filled.fork()
    other, third = filled.fork(), None
    for folder, _, names in os.walk(one.path, topdown=False):
        for name in names:
            os.unlink(os.path.join(folder, name))
        if folder != one.path:
            for name in os.listdir(folder):
                path = os.path.join(folder, name)
                os.unlink(path) if os.path.islink(path) else os.rmdir(path)
    with open(os.path.join(other.path, "f"), "a") as file:
        file.write("more\n")
    third = filled.forks.fork(one.snapshot.id)
    assert everything(third.path) == before == everything(filled.root)
    assert everything(other.path) == before | {b"f": (before[b"f"][0], b"old\nmore\n")}
    assert filled.store.verify().is_intact


def test_changes_are_told_by_path(filled):
    fork = filled.fork()
    top = fork.path
    with open(f"{top}/f", "a") as file:
        file.write("more\n")
    with open(f"{top}/file-turns", "r+") as file:
        file.write("x")  # the same bytes again: nothing has changed
    os.chmod(f"{top}/script", 0o644)
    os.unlink(f"{top}/link")
    os.symlink("elsewhere", f"{top}/link")
    os.unlink(f"{top}/d/e/g")
    os.unlink(f"{top}/turns/into/file")
    os.rmdir(f"{top}/turns/into")
    os.rmdir(f"{top}/turns")
    with open(f"{top}/turns", "w") as file:
        file.write("a file now")
    os.rmdir(f"{top}/empty")
    os.mkdir(f"{top}/empty")
    os.makedirs(f"{top}/new/folder")
    with open(f"{top}/new/folder/file", "w") as file:
        file.write("new")
    assert fork.changes() == [
        ForkChange(b"d/e/g", Kind.REMOVED),
        ForkChange(b"f", Kind.CHANGED),
        ForkChange(b"link", Kind.CHANGED),
        ForkChange(b"new", Kind.ADDED),
        ForkChange(b"new/folder", Kind.ADDED),
        ForkChange(b"new/folder/file", Kind.ADDED),
        ForkChange(b"script", Kind.MODE),
        ForkChange(b"turns", Kind.ADDED),
        ForkChange(b"turns", Kind.REMOVED),
        ForkChange(b"turns/into", Kind.REMOVED),
        ForkChange(b"turns/into/file", Kind.REMOVED),
    ]


def test_a_folder_made_anew_hides_what_was_in_the_old_one(filled):
    fork = filled.fork()
    for name in ("g", "h"):
        os.unlink(f"{fork.path}/d/e/{name}")
    os.rmdir(f"{fork.path}/d/e")
    os.mkdir(f"{fork.path}/d/e")
    with open(f"{fork.path}/d/e/h", "w") as file:
        file.write("another\n")
    assert os.listdir(f"{fork.path}/d/e") == ["h"]
    assert fork.changes() == [ForkChange(b"d/e/g", Kind.REMOVED), ForkChange(b"d/e/h", Kind.CHANGED)]


def test_the_file_tools_of_the_host_work_in_a_fork(filled):
    fork = filled.fork()
    mounts = Mounts(fork.path)
    try:
        for path, data in (("d/e/g", b"rewritten\n"), ("a/new/one", b"made\n")):
            with mounts.find(mounts.clean(path)) as target:
                rewrite(target, lambda _, data=data: data, DEFAULT_LIMITS)
            with mounts.find(mounts.clean(path)) as target:
                assert read(target, DEFAULT_LIMITS).data == data
                assert target.real == f"{fork.mount_path}/{path}"
    finally:
        mounts.close()
    assert fork.changes() == [
        ForkChange(b"a", Kind.ADDED),
        ForkChange(b"a/new", Kind.ADDED),
        ForkChange(b"a/new/one", Kind.ADDED),
        ForkChange(b"d/e/g", Kind.CHANGED),
    ]
    assert (filled.root / "d/e/g").read_text() == "deep\n"


SANDBOXED = """
import sys, threading
from toolyard.sandbox.backends.bubblewrap import bubblewrap_sandbox, find_bubblewrap
from toolyard.sandbox.spec import RunRequest, SandboxSpec, RunKind
sandbox = bubblewrap_sandbox(find_bubblewrap())
try:
    sandbox.start(SandboxSpec(workspace=sys.argv[1]))
    tell = lambda _, data: (sys.stdout.buffer.write(data), sys.stdout.flush())
    done = sandbox.run(RunRequest(RunKind.COMMAND, sys.argv[2], 30.0), tell, threading.Event())
    sys.exit(done.exit_code)
finally:
    sandbox.close()
"""
COMMAND = "pwd && cat f && echo changed > f && rm d/e/g && mkdir -p made && echo new > made/file && ls -d made"


@pytest.mark.skipif(find_bubblewrap() is None, reason="there is no bubblewrap")
def test_a_fork_is_the_workspace_of_a_sandbox(filled):
    fork = filled.fork()
    done = subprocess.run(
        [*fork.enter_command, sys.executable, "-c", SANDBOXED, fork.mount_path, COMMAND],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [fork.mount_path, "old", "made"]
    assert fork.changes() == [
        ForkChange(b"d/e/g", Kind.REMOVED),
        ForkChange(b"f", Kind.CHANGED),
        ForkChange(b"made", Kind.ADDED),
        ForkChange(b"made/file", Kind.ADDED),
    ]
    assert (filled.root / "f").read_text() == "old\n"


@pytest.mark.skipif(find_bubblewrap() is None, reason="there is no bubblewrap")
def test_a_fork_that_is_found_by_path_needs_no_other_start_of_its_sandbox(filled):
    fork = filled.fork()
    if fork.enter_command:
        pytest.skip("its namespaces have to be entered")
    sandbox, said = bubblewrap_sandbox(find_bubblewrap()), []
    try:
        sandbox.start(SandboxSpec(workspace=fork.mount_path))
        request = RunRequest(RunKind.COMMAND, "cat f; echo new > f", 30.0)
        sandbox.run(request, lambda _, data: said.append(data), threading.Event())
    finally:
        sandbox.close()
    assert b"".join(said) == b"old\n"
    assert fork.changes() == [ForkChange(b"f", Kind.CHANGED)]


def test_a_snapshot_of_a_fork_brings_its_changes_home(filled):
    fork = filled.fork()
    with open(f"{fork.path}/f", "w") as file:
        file.write("better\n")
    os.unlink(f"{fork.path}/d/e/g")
    taken = fork.take_snapshot(agent="a", reason="try")
    fork.close()
    assert not os.path.lexists(fork.mount_path)
    restored = filled.store.restore(taken.snapshot.id, root=str(filled.root))
    assert (restored.skipped, restored.failed, restored.removed) == ((), (), 1)
    assert (filled.root / "f").read_text() == "better\n"
    assert not (filled.root / "d/e/g").exists()
    assert taken.snapshot.root == fork.mount_path


def test_a_fork_that_is_closed_leaves_nothing(filled):
    fork = filled.fork()
    os.makedirs(f"{fork.path}/new/closed")
    os.chmod(f"{fork.path}/new/closed", 0)
    os.chmod(f"{fork.path}/new", 0o500)
    fork.close()
    fork.close()
    assert os.listdir(filled.folder / "forks") == []
    assert (filled.root / "f").read_text() == "old\n"


def test_the_tree_is_written_out_once(filled, monkeypatch):
    from toolyard.snapshots.forks import base_trees

    made = []
    real = base_trees.StagedFolder.make
    monkeypatch.setattr(base_trees.StagedFolder, "make", lambda self, *rest: (made.append(1), real(self, *rest))[1])
    snapshot = filled.take()
    filled.forks.prepare(snapshot.id)
    again = filled.open()
    for forks in (filled.forks, filled.forks, again):
        forks.fork(snapshot.id)
    assert len(made) == 1


def test_trees_that_nobody_uses_go_but_for_the_newest(yard):
    snapshots = []
    yard.write("closed/f", "x")
    os.chmod(yard.root / "closed", 0o500)  # its owner has to open it before it can go
    for number in range(4):
        yard.write("f", f"{number}\n")
        snapshots.append(yard.take())
    held = yard.fork(snapshots[0])
    for snapshot in snapshots[1:]:
        yard.forks.fork(snapshot.id).close()
    (yard.folder / "trees" / ".toolyard-tmp-half").mkdir()
    yard.open()
    left = {name for name in os.listdir(yard.folder / "trees") if name != "lock"}
    keys = [f"{one.tree.hex()}-{one.mode:o}" for one in snapshots]
    assert left == {keys[0], keys[2], keys[3]}
    with open(f"{held.path}/f") as file:
        assert file.read() == "0\n"


OWNER = """
import os, sys
from toolyard.snapshots.forks import Forks, ForkKind
from toolyard.snapshots import SnapshotStore
state, folder, name, way = sys.argv[1:]
with SnapshotStore(state) as store:
    fork = Forks(folder, store, [ForkKind(way)]).fork(name)
    open(fork.path + "/f", "w").write("of one who is killed")
    print(fork.id, flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_owner_left_is_taken_away_by_the_next(filled):
    mine = filled.fork()
    words = [str(filled.root.parent / "state"), str(filled.folder), mine.snapshot.id, filled.how.value]
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        theirs = owner.stdout.readline().strip()
        filled.open()  # its owner is alive: it stays
        assert set(os.listdir(filled.folder / "forks")) == {mine.id, theirs}
        owner.send_signal(signal.SIGKILL)
    filled.open()
    assert os.listdir(filled.folder / "forks") == [mine.id]
    with open(f"{mine.path}/f") as file:
        assert file.read() == "old\n"


def test_a_holder_that_was_killed_takes_its_forks_along_and_another_follows(tmp_path):
    from toolyard.snapshots import SnapshotStore

    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "f").write_text("x")
    with (
        SnapshotStore(str(tmp_path / "state")) as store,
        Forks(str(tmp_path / "forks"), store, [ForkKind.HELD]) as forks,
    ):
        name = store.create(str(tmp_path / "root")).snapshot.id
        first = forks.fork(name)
        if first.kind is not ForkKind.HELD:
            pytest.skip(first.fallback_reason)
        holder = first.enter_command[first.enter_command.index("--target") + 1]
        os.kill(int(holder), signal.SIGKILL)
        os.waitid(os.P_PID, int(holder), os.WEXITED | os.WNOWAIT)
        second = forks.fork(name)
        assert (second.kind, os.listdir(second.path)) == (ForkKind.HELD, ["f"])
        first.close()
        second.close()
        assert os.listdir(tmp_path / "forks" / "forks") == []


def test_a_machine_without_overlays_gets_a_copy_and_is_told_why(tmp_path, monkeypatch):
    from toolyard.snapshots import SnapshotStore
    from toolyard.snapshots.forks import forks as module

    def refused(*_, **__):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(module, "mount_overlay", refused)
    monkeypatch.setattr(module, "OverlayClient", refused)
    root = tmp_path / "root"
    root.mkdir()
    (root / "f").write_text("x")
    with open(root / "sparse", "wb") as file:
        file.truncate(20_000_000)
        file.seek(9_000_000)
        file.write(b"data")
    with SnapshotStore(str(tmp_path / "state")) as store, Forks(str(tmp_path / "forks"), store) as forks:
        fork = forks.fork(store.create(str(root)).snapshot.id)
        assert fork.kind in (ForkKind.COPIED, ForkKind.SHARED)
        assert fork.fallback_reason == "this machine does not allow overlay mounts: Operation not permitted"
        assert everything(fork.path) == everything(root)
        assert os.stat(f"{fork.path}/sparse").st_blocks * 512 < 2_000_000


def test_a_damaged_file_is_told_and_the_rest_is_there(filled):
    snapshot = filled.take()
    filled.store.close()
    (pack,) = (filled.root.parent / "state" / "packs").iterdir()
    data = bytearray(pack.read_bytes())
    at = data.index(b"deeper\n")
    data[at] ^= 1
    pack.write_bytes(data)
    filled.store.__init__(str(filled.root.parent / "state"))
    fork = filled.fork(snapshot)
    assert [line.partition(":")[0] for line in fork.missing] == ["d/e/h"]
    assert not os.path.lexists(f"{fork.path}/d/e/h")
    assert os.path.exists(f"{fork.path}/d/e/g")


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_damaged_tree_is_named_and_written_out_again_once_it_is_removed(filled, is_gone):
    snapshot = filled.take()
    filled.fork(snapshot).close()
    damaged = list(filled.folder.rglob("notes"))
    for notes in damaged:
        notes.unlink()
        if not is_gone:
            notes.mkdir()
        with pytest.raises(SystemFault, match="is damaged") as raised:
            filled.fork(snapshot)
        assert str(notes.parent) in raised.value.message
        assert "Remove that folder" in raised.value.hint
        shutil.rmtree(notes.parent)
    assert damaged or filled.how is ForkKind.COPIED
    filled.fork(snapshot).close()
