"""A commit whose writer was killed before anybody could see it never comes back without its bytes."""

import os
import subprocess
import sys

from toolyard.snapshots import SnapshotStore

# The second commit is written, and then the header that says so is what it was before: that is how SQLite's files
# look when a writer is killed between the two. The next writer adds nothing, and is killed, too.
SCRIPT = """
import os, sys
from toolyard.snapshots import SnapshotStore
from toolyard.snapshots.store.object_writer import ObjectWriter

root, folder = sys.argv[1:]
store = SnapshotStore(folder)
store.create(root)
header = 2 * 48
shared = os.open(f"{folder}/index.sqlite3-shm", os.O_RDWR)
before = os.pread(shared, header, 0)
with open(f"{root}/b.txt", "w") as file:
    file.write("b" * 10_000)
store.create(root)
assert len(store.list()) == 2
os.pwrite(shared, before, 0)
assert len(store.list()) == 1
with store.open_for_writing() as index:
    ObjectWriter(store.packs, index)._open_pack()
    os._exit(0)
"""


def test_what_the_next_writer_took_for_a_leftover_is_not_named_again(tmp_path):
    root, folder = tmp_path / "root", tmp_path / "store"
    root.mkdir()
    (root / "a.txt").write_text("a")
    done = subprocess.run([sys.executable, "-c", SCRIPT, root, folder], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    with SnapshotStore(os.fspath(folder)) as store:
        assert store.verify().is_intact
        taken = store.create(os.fspath(root)).snapshot
        assert store.read(taken.id, "b.txt") == b"b" * 10_000
        assert store.verify().is_intact
