"""A process killed at any moment loses the snapshot under way and nothing else; the folder's files stay whole."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

WORKER = '''
"""Forks a worker for each line it is sent; the worker changes, takes, collects and restores until it is killed."""
import os, random, signal, sys
from toolyard.snapshots import SnapshotStore, StoreOptions

root, folder, log = sys.argv[1:]

def whole(number):
    return (b"%08d" % number) * random.choice([1, 40, 40_000])

def work(seed):
    random.seed(seed)
    out = os.open(log, os.O_WRONLY | os.O_APPEND)
    with SnapshotStore(folder, StoreOptions(pack_bytes=600_000)) as store:
        while True:
            for _ in range(random.randrange(1, 6)):
                name = f"{root}/d{random.randrange(3)}/f{random.randrange(6)}"
                with open(root + "/../next", "wb") as file:
                    file.write(whole(random.randrange(10**8)))
                os.replace(root + "/../next", name)
            taken = store.create(root)
            os.write(out, (taken.snapshot.id + "\\n").encode())
            choice = random.random()
            if choice < 0.2:
                store.gc(keep=4)
            elif choice < 0.5:
                store.restore(random.choice(store.list()[:3]).id)
                os.write(out, (store.list()[0].id + "\\n").encode())

for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        try:
            work(int(line))
        finally:
            os._exit(3)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
'''
CHECK = """
import json, sys
from toolyard.snapshots import SnapshotStore
with SnapshotStore(sys.argv[1]) as store:
    if sys.argv[2:]:
        store.create(sys.argv[2])
    verified = store.verify()
    print(json.dumps({"sound": verified.is_intact, "ids": [one.id for one in store.list()]}))
"""


@contextlib.contextmanager
def workers(root, folder, log):
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, root, folder, log],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()
        process.stderr.close()


def killed_after(process, seed, seconds):
    process.stdin.write(f"{seed}\n")
    process.stdin.flush()
    pid = int(process.stdout.readline())
    time.sleep(seconds)  # the moment of the kill is what is being varied
    os.kill(pid, signal.SIGKILL)
    ended = int(process.stdout.readline())
    assert ended == -signal.SIGKILL, process.stderr.read()


def torn(root):
    """Files that are neither an old version nor a new one."""
    found = []
    for folder, _, names in os.walk(root):
        for name in names:
            if name.startswith(".toolyard-tmp-"):
                continue
            with open(os.path.join(folder, name), "rb") as file:
                data = file.read()
            if data != data[:8] * (len(data) // 8) or len(data) // 8 not in (1, 40, 40_000):
                found.append(name)
    return found


def check(folder, *root):
    done = subprocess.run(
        [sys.executable, "-c", CHECK, folder, *root], capture_output=True, text=True, check=False, timeout=50
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def kill_many(tmp_path, times, longest):
    root, folder, log = (str(tmp_path / name) for name in ("root", "state", "log"))
    for number in range(3):
        os.makedirs(f"{root}/d{number}")
    open(log, "w").close()
    chance = random.Random(7)
    with workers(root, folder, log) as process:
        for number in range(times):
            killed_after(process, number, chance.uniform(0, longest))
            assert torn(root) == []
            if number % 10 == 9 or number == times - 1:
                found = check(folder)
                assert found["sound"], number
                with open(log) as lines:
                    told = lines.read().split()
                assert not told or told[-1] in found["ids"], f"a snapshot was lost at kill {number}"
    check(folder, root)
    left = [name for _, folders, names in os.walk(root) for name in folders + names if ".toolyard-tmp-" in name]
    assert left == [], "the next writer takes away what was left"
    assert told, "nothing was ever taken"
    assert len(told) > times // 10


def test_a_dozen_kills_lose_nothing(tmp_path):
    kill_many(tmp_path, 12, 0.4)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_hundred_kills_lose_nothing(tmp_path):
    kill_many(tmp_path, 200, 0.3)


def test_what_a_killed_writer_left_behind_is_taken_away(place):
    place.write("f", "first\n")
    first = place.take().snapshot
    (pack,) = os.listdir(place.folder / "packs")
    path = place.folder / "packs" / pack
    size = os.stat(path).st_size
    with open(path, "ab") as file:
        file.write(b"half a record" * 1000)
    (place.folder / "packs" / "000777.pack").write_bytes(b"a pack that nobody knows")
    assert place.store.read(first.id, "f") == b"first\n"
    assert place.store.verify().is_intact
    place.write("f", "second\n")
    second = place.take().snapshot
    assert os.listdir(place.folder / "packs") == [pack]
    with open(path, "rb") as file:
        file.seek(size)
        assert b"half a record" not in file.read()
    assert place.store.read(second.id, "f") == b"second\n"
    assert place.store.verify().is_intact


def test_the_index_names_nothing_before_it_is_on_disk(place, monkeypatch):
    """The order of events when a snapshot is committed: bytes are synced, then the index is."""
    from toolyard.snapshots.store import index, packs

    events = []
    real_sync, real_put = packs.os.fdatasync, index.Index.put_objects
    monkeypatch.setattr(packs.os, "fdatasync", lambda fd: (events.append("sync"), real_sync(fd))[1])
    monkeypatch.setattr(
        index.Index, "put_objects", lambda self, objects: (events.append("index"), real_put(self, objects))[1]
    )
    place.write("f", "x")
    place.take()
    assert events == ["sync", "index"]
