"""Killed at any moment, a publisher leaves the old tree or the new one, whole; the next removes what it left."""

import os
import random
import signal
import subprocess
import sys
import threading

from toolyard.sharing.manifest import MANIFEST_FILE, read_manifest
from toolyard.sharing.publisher import former_trees_folder
from toolyard.snapshots import EntryKind, SnapshotStore
from toolyard.snapshots.store.object_reader import walk_tree

KILLS = 25
STEPS_APART = 3
WORKER = """
import os, random, signal, sys
from pathlib import Path
from toolyard.core.permission_modes import PermissionMode
from toolyard.policy.policy import Policy
from toolyard.sharing.visibility import VisibilityFilter
from toolyard.sharing.publisher import Publisher
from toolyard.snapshots import SnapshotStore

root, work, shared, state = sys.argv[1:]
policy = Policy(PermissionMode.STRICT, work)
STEPS = "open close mkdir rmdir rename replace link symlink unlink fsync fchmod utime".split()

def die_at(step):
    left = iter(range(step - 1, -1, -1))
    def counted(function):
        def call(*given, **named):
            if next(left) == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*given, **named)
        return call
    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))

def run(step):
    chance = random.Random(step)
    is_first = True
    with SnapshotStore(state + "/snapshots") as store:
        publisher = Publisher(shared, state, store)
        shown = VisibilityFilter(policy, workspace=work, root=root, published_folder=shared + "/agent_b")
        while True:
            for _ in range(4):
                path = Path(work, f"d{chance.randrange(4)}", f"f{chance.randrange(5)}")
                path.parent.mkdir(exist_ok=True)
                path.unlink(missing_ok=True)
                if chance.random() < 0.8:
                    path.write_bytes(chance.randbytes(chance.choice([10, 5000])))
            snapshot = store.create(work).snapshot
            if not is_first:
                die_at(step)
            publisher.publish("agent_b", snapshot, shown)
            if is_first:
                os.write(1, b".")
            is_first = False

for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        try:
            run(int(line))
        finally:
            os._exit(3)
    _, status = os.waitpid(pid, 0)
    os.write(1, b"%d\\n" % os.waitstatus_to_exitcode(status))
"""


def test_a_killed_publisher_leaves_a_whole_tree(team):
    arguments = [str(team.root), str(team.work), str(team.shared), str(team.state)]
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        for number in range(KILLS):
            # One whole publication, then as many steps of the next ones.
            process.stdin.write(b"%d\n" % (1 + number * STEPS_APART))
            assert process.stdout.readline() == b".%d\n" % -signal.SIGKILL
            _is_whole(team)
        process.stdin.close()
    team.write("last", "last")

    team.publish()

    assert _is_whole(team)["last"] == b"last"
    trees = os.path.join(former_trees_folder(str(team.shared)), "agent_b")
    assert all(read_manifest(os.path.join(trees, name)) is not None for name in os.listdir(trees))
    assert len(os.listdir(trees)) <= 2


def _is_whole(team):
    """What is published is, file for file, the snapshot that its note names."""
    note = read_manifest(str(team.place))
    assert note is not None
    with SnapshotStore(str(team.state / "snapshots")) as store, store.reader() as reader:
        entries = walk_tree(reader, store.get(note.snapshot).tree)
        held = {
            os.fsdecode(path): reader.content(entry) for path, entry in entries if entry.kind is not EntryKind.FOLDER
        }
    shown = {}
    for above, _, files in os.walk(team.place):
        for name in files:
            path = os.path.join(above, name)
            if name != MANIFEST_FILE:
                with open(path, "rb") as file:
                    shown[os.path.relpath(path, team.place)] = file.read()
    assert shown == held
    return shown


def test_a_reader_never_sees_parts_of_two_publications(team):
    names = [f"d{number}/f" for number in range(4)]
    for name in names:
        team.write(name, "0")
    team.publish()
    done, looked = threading.Event(), threading.Semaphore(0)
    seen, torn = set(), []

    def read():
        while not done.is_set():
            fd = os.open(team.place, os.O_RDONLY | os.O_DIRECTORY)
            try:
                texts = {_text(fd, name) for name in names}
            finally:
                os.close(fd)
            seen.update(texts)
            if len(texts) != 1:
                torn.append(texts)
            looked.release()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(1, 12):
            for name in names:
                team.write(name, str(number))
            team.publish()
            # Who stands in a tree keeps it for two publications: no more are made in the time of one look.
            assert looked.acquire(timeout=30)
    finally:
        done.set()
        reader.join()

    assert not torn
    assert seen


def _text(fd, name):
    own = os.open(name, os.O_RDONLY, dir_fd=fd)
    try:
        return os.read(own, 10)
    finally:
        os.close(own)


def test_several_publishers_of_one_agent_end_with_the_newest(team):
    snapshots = []
    for number in range(8):
        team.write("a", str(number))
        snapshots.append(team.take())
    random.Random(3).shuffle(snapshots)
    threads = [threading.Thread(target=team.publish, kwargs={"snapshot": snapshot}) for snapshot in snapshots]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (team.place / "a").read_text() == "7"
    assert os.listdir(team.shared) == ["agent_b"]
