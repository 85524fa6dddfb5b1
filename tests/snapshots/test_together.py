"""Several processes use one store at once: nothing is lost, nothing is mixed."""

import os
import subprocess
import sys
import threading

TAKING = """
import os, sys
from toolyard.snapshots import SnapshotStore
root, folder, name = sys.argv[1:]
with SnapshotStore(folder) as store:
    for number in range(8):
        with open(f"{root}/f{number}", "w") as file:
            file.write(f"{name} {number}\\n" * 1000)
        taken = store.create(root, agent=name)
        assert store.read(taken.snapshot.id, f"f{number}").startswith(f"{name} {number}".encode())
        if number == 4:
            store.gc(keep=20)
"""
RESTORING = """
import sys
from toolyard.snapshots import SnapshotStore
folder, *names = sys.argv[1:]
with SnapshotStore(folder) as store:
    sys.stdin.readline()
    for name in names:
        done = store.restore(name)
        assert (done.skipped, done.failed) == ((), ()), done
"""


def run(code, *arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def end(process):
    _, said = process.communicate(timeout=50)
    assert process.returncode == 0, said


def test_writers_in_several_processes_lose_nothing(place, tmp_path):
    processes = []
    for name in "abcd":
        (tmp_path / name).mkdir()
        processes.append(run(TAKING, str(tmp_path / name), str(place.folder), name))
    for process in processes:
        end(process)
    snapshots = place.store.list()
    assert len(snapshots) == 32
    for one in snapshots:
        content = place.store.read(one.id, f"f{one.counts.files - 1}")
        assert content == f"{one.agent} {one.counts.files - 1}\n".encode() * 1000
    for name in "abcd":
        mine = place.store.list(str(tmp_path / name))
        assert [one.parent for one in mine] == [*(one.id for one in mine[1:]), None]
    assert place.store.verify().is_intact


def test_two_processes_that_restore_at_once_end_in_one_of_the_two_states(place):
    for number in range(200):
        place.write(f"d{number % 7}/f{number}", f"one {number}\n")
    place.write("only-one/x", "x")
    one, first = place.take().snapshot, place.picture()
    for number in range(200):
        place.write(f"d{number % 7}/f{number}", f"two {number}\n")
    os.unlink(place.root / "only-one/x")
    os.rmdir(place.root / "only-one")
    place.write("only-two/y", "y")
    two, second = place.take().snapshot, place.picture()
    names = [one.id, two.id]
    processes = [run(RESTORING, str(place.folder), *names), run(RESTORING, str(place.folder), *reversed(names))]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        end(process)
    assert place.picture() in (first, second)
    assert place.store.verify().is_intact


def test_threads_of_one_process_share_a_store(place, tmp_path):
    roots = []
    for name in "abc":
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(name * 1000)
        roots.append(str(tmp_path / name))
    faults = []

    def work(root):
        try:
            for _ in range(5):
                taken = place.store.create(root)
                assert place.store.read(taken.snapshot.id, "f") == os.path.basename(root).encode() * 1000
        except BaseException as fault:  # noqa: BLE001 - told to the test's own thread
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(root,)) for root in roots]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert faults == []
    assert len(place.store.list()) == 15
