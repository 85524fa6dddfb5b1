"""A folder, a store beside it, and pictures of the folder to compare; no descriptor may be lost."""

import os
import stat
import time

import pytest

from toolyard.snapshots import SnapshotStore, StoreOptions
from toolyard.snapshots.archive.ignore_files import record_accepted


def picture(root):
    """Everything in a folder, byte for byte: by path, its mode and content."""
    found = {}
    root = os.fsencode(root)
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            found[os.path.relpath(path, root)] = (_kind(status.st_mode), *_content(path, status))
    return found


def _kind(mode):
    return stat.filemode(mode)[0]


def _content(path, status):
    if stat.S_ISLNK(status.st_mode):
        return (os.readlink(path),)
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        return (mode,)
    with open(path, "rb") as file:
        return (mode, file.read())


class Place:
    def __init__(self, path):
        self.root = path / "root"
        self.root.mkdir()
        self.folder = path / "state" / "snapshots"
        self.store = SnapshotStore(str(self.folder))

    def write(self, name, data="text\n", mode=None):
        path = os.path.join(os.fsencode(self.root), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
        if mode is not None:
            os.chmod(path, mode)
        return path

    def accept(self, text, folder=b"", root=None):
        """Write an ignore file and accept it, as the user does."""
        self.write(os.path.join(folder, b".toolyardignore"), text)
        record_accepted(str(self.folder), str(root or self.root), folder, text.encode())

    def take(self, **options):
        return self.store.create(str(self.root), **options)

    def picture(self):
        return picture(self.root)

    def settle(self):
        """Wait until no file of the folder is so new that its times cannot be trusted."""
        newest = max((os.lstat(path).st_ctime_ns for path in self._all()), default=0)
        while time.time_ns() - newest < 60_000_000:
            time.sleep(0.005)  # the kernel's clock has to move on; nothing announces that

    def _all(self):
        for folder, folders, files in os.walk(self.root):
            for name in folders + files:
                yield os.path.join(folder, name)

    def reopened(self, **options):
        self.store.close()
        self.store = SnapshotStore(str(self.folder), StoreOptions(**options))
        return self.store


@pytest.fixture
def place(tmp_path):
    before = _descriptors()
    made = Place(tmp_path)
    yield made
    made.store.close()
    assert _descriptors() <= before


def _descriptors():
    """What is open by now, without what the interpreter itself opens late."""
    open_now = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            open_now.add((name, os.readlink(f"/proc/self/fd/{name}")))
        except FileNotFoundError:
            continue
    return {one for one in open_now if "snapshots" in one[1] or "root" in one[1]}


@pytest.fixture
def small_disk(tmp_path):
    """A disk of two megabytes, which only root can mount."""
    import subprocess

    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
