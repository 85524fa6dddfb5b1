"""A workspace with a Keeper, and yards opened on it as a surface opens them."""

import fcntl
import os
import queue
import threading
from dataclasses import dataclass, field

import pytest

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.config.snapshots import Snapshots
from toolyard.snapshots.service.auto_snapshots import AutoSnapshots, SnapshotLocation


@dataclass
class Waiter:
    """A call that is about to change something."""

    lines: list = field(default_factory=list)
    is_patient: bool = True

    def require_thread(self):
        if not self.is_patient:
            raise InterruptedError

    def check_time(self):
        pass

    def add_result_note(self, text):
        self.lines.append(text)


class Spot:
    def __init__(self, folder):
        self.root = folder / "ws"
        self.root.mkdir()
        self.write("a.txt", "old")
        self.store = folder / "state" / "snapshots"
        self.folder = folder
        self.told = []
        self._opened = []

    def keeper(self, root=None, **section):
        section = {"watch": False, **section}
        place = SnapshotLocation(str(root or self.root), str(self.store), "agent")
        self._opened.append(AutoSnapshots(place, Snapshots(**section), self.told.append))
        self._opened[-1].taken = queue.Queue()
        self._opened[-1].on_snapshot(self._opened[-1].taken.put)
        return self._opened[-1]

    def yard(self, toolset=(Toolset.CLAUDE, Toolset.WORKSPACE), agent=None, mode=None, **config):
        options = YardOptions(
            workspace=str(self.root),
            config=Config.model_validate(config),
            agent=agent,
            mode=mode,
            toolset=toolset,
            state_home=str(self.folder / "yards"),
        )
        self._opened.append(Yard.open(options))
        return self._opened[-1]

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def close(self):
        for each in reversed(self._opened):
            each.close()


@pytest.fixture
def spot(tmp_path):
    made = Spot(tmp_path.resolve())
    before = set(threading.enumerate())
    yield made
    made.close()
    ours = [each.name for each in set(threading.enumerate()) - before if each.name.startswith("toolyard-")]
    assert not ours


@pytest.fixture
def waiter():
    return Waiter()


@pytest.fixture
def locked(spot):
    """Locks the store as another process would, until it is told to let go."""
    opened = []

    def lock(folder=None):
        folder = folder or spot.store
        os.makedirs(folder, exist_ok=True)
        opened.append(os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT, 0o600))
        fcntl.flock(opened[-1], fcntl.LOCK_EX)

    def let_go():
        while opened:
            os.close(opened.pop())

    lock.let_go = let_go
    yield lock
    let_go()
