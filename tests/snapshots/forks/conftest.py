"""A folder, a store, and forks in each way that this machine knows."""

import contextlib
import os
import shutil
import subprocess

import pytest

from toolyard.snapshots import SnapshotStore
from toolyard.snapshots.forks import ForkKind, Forks


def kernel_gives(how, folder):
    """Whether a plain `mount` can do it here. What only Toolyard fails to do is no reason to skip a test."""
    layers = {name: folder / "probe" / name for name in ("lowerdir", "upperdir", "workdir", "view")}
    for layer in layers.values():
        layer.mkdir(parents=True)
    view = layers.pop("view")
    options = ",".join(f"{name}={layer}" for name, layer in layers.items())
    # In namespaces of its own, so that it is gone with the command.
    command = (
        ["unshare", "--mount"] if how is ForkKind.MOUNTED else ["unshare", "--user", "--map-root-user", "--mount"]
    )
    command += ["mount", "-t", "overlay", "overlay", "-o", f"{options},userxattr", str(view)]
    if shutil.which("unshare") is None or shutil.which("mount") is None:
        return False
    return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0


class Yard:
    """`forks(...)` gives Forks of one way; everything is closed in the end, and nothing may be left mounted."""

    def __init__(self, path, how):
        self.how = how
        self.root = path / "root"
        self.root.mkdir()
        # Commas and colons mean something in the options of a mount.
        self.folder = path / "state, of: forks"
        self.store = SnapshotStore(str(path / "state"))
        self._stack = contextlib.ExitStack()
        self.forks = self.open()

    def open(self):
        ways = () if self.how is ForkKind.COPIED else (self.how,)
        return self._stack.enter_context(Forks(str(self.folder), self.store, ways))

    def write(self, name, data="text\n", mode=0o644):
        path = os.path.join(os.fsencode(self.root), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
        os.chmod(path, mode)

    def take(self):
        return self.store.create(str(self.root)).snapshot

    def fork(self, snapshot=None):
        made = self.forks.fork((snapshot or self.take()).id)
        if made.kind is not self.how:
            assert not kernel_gives(self.how, self.root.parent), made.fallback_reason
            pytest.skip(f"this machine gives us no {self.how} forks: {made.fallback_reason}")
        return made

    def close(self):
        self._stack.close()
        self.store.close()


@pytest.fixture(params=[ForkKind.MOUNTED, ForkKind.HELD, ForkKind.COPIED])
def yard(tmp_path, request):
    made = Yard(tmp_path, request.param)
    yield made
    made.close()
    with open("/proc/self/mountinfo") as table:
        assert str(tmp_path) not in table.read()
    assert os.listdir(made.folder / "forks") == []
