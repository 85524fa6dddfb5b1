"""A snapshot that cannot be taken stops nobody, and none that was told is lost."""

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from toolyard.core.calls import Call
from toolyard.core.errors import SystemFault, ToolyardError
from toolyard.snapshots import SnapshotStore
from toolyard.snapshots.service import auto_snapshots as module
from toolyard.snapshots.service import size_limits
from toolyard.storage.audit_reader import read

LONG = 30.0
# Takes snapshots as fast as it can, and tells each on a line of its own once it was told of it.
TAKER = """
import sys
from toolyard.snapshots.service.auto_snapshots import AutoSnapshots, SnapshotLocation
from toolyard.config.snapshots import Snapshots

root, folder, name = sys.argv[1:]
keeper = AutoSnapshots(SnapshotLocation(root, folder, name), Snapshots(watch=False), print)
keeper.on_snapshot(lambda taken: print(taken.snapshot.id, flush=True) if taken.changed else None)
number = 0
while True:
    number += 1
    with open(f"{root}/{name}-{number % 7}.txt", "w") as file:
        file.write(f"{name} {number} " * 5_000)
    keeper.schedule_snapshot("Write")
    keeper.flush()
"""


async def call(yard, tool, /, **arguments):
    return await yard.dispatch(Call(tool, arguments, "test", session="s"))


def own_events(yard):
    return [record.event.reason for record in read(yard.state) if record.event.tool == "snapshots"]


async def test_calls_go_on_where_snapshots_cannot_be_kept(spot):
    yard = spot.yard(snapshots={"watch": False})
    os.makedirs(yard.state, exist_ok=True)
    with open(yard.home.snapshots_folder, "w"):
        pass  # a file where the folder should be
    await call(yard, "Read", file_path="a.txt")
    first = await call(yard, "Write", file_path="a.txt", content="new")
    second = await call(yard, "Write", file_path="b.txt", content="new")
    yard.snapshots.flush()
    said = [result.text.count("cannot be undone") for result in (first, second)]
    assert ((spot.root / "a.txt").read_text(), said, len(own_events(yard))) == ("new", [1, 0], 1)


def test_a_full_disk_is_told_once_and_over_when_there_is_room_again(spot, waiter, monkeypatch):
    full = True
    create = SnapshotStore.create

    def creating(self, *arguments, **options):
        if full:
            raise SystemFault("The disk is full.", hint="Free some space.")
        return create(self, *arguments, **options)

    monkeypatch.setattr(SnapshotStore, "create", creating)
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.0)
    keeper = spot.keeper()
    keeper.before_change(waiter)
    keeper.schedule_snapshot("Write")
    keeper.flush()
    assert spot.told == ["No snapshot could be taken, so changes cannot be undone: The disk is full."]
    full = False
    keeper.schedule_snapshot("Write")
    keeper.flush()
    assert len(keeper.store.list()) == 1
    full = True
    spot.write("a.txt", "more")
    keeper.schedule_snapshot("Write")
    keeper.flush()
    assert len(spot.told) == 2


def test_a_fault_that_nobody_thought_of_costs_one_snapshot_and_not_all_that_follow(spot, waiter, monkeypatch):
    create = SnapshotStore.create
    faults = [MemoryError("no memory"), AttributeError("a mistake")]

    def creating(self, *arguments, **options):
        if faults:
            raise faults.pop()
        return create(self, *arguments, **options)

    monkeypatch.setattr(SnapshotStore, "create", creating)
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.0)
    keeper = spot.keeper()
    keeper.before_change(waiter)
    keeper.schedule_snapshot("Write")
    keeper.flush()
    keeper.schedule_snapshot("Write")
    assert keeper.taken.get(timeout=LONG).changed
    assert len(spot.told) == 1
    assert "a mistake" in spot.told[0]


def test_what_nobody_asked_for_does_not_take_the_last_of_the_disk(spot, waiter, monkeypatch):
    keeper = spot.keeper()
    keeper.before_change(waiter)
    (baseline,) = keeper.store.list()
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(size_limits, "_MOST_RESERVED", float("inf"))
    monkeypatch.setattr(size_limits, "_SHARE", 1.0)
    spot.write("a.txt", "changed")
    keeper.schedule_snapshot("Write")
    keeper.flush()

    assert [snapshot.id for snapshot in keeper.store.list()] == [baseline.id], "and nothing is dropped to make room"
    assert "is nearly full" in spot.told[0]
    assert keeper.create().changed, "who asks for one gets it"


def test_a_store_that_has_its_share_of_the_disk_takes_no_more_by_itself(spot, waiter, monkeypatch):
    keeper = spot.keeper(most_stored=1)
    keeper.before_change(waiter)  # the store is empty yet
    (baseline,) = keeper.store.list()
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.0)
    spot.write("a.txt", "changed")
    keeper.schedule_snapshot("Write")
    keeper.flush()

    assert [snapshot.id for snapshot in keeper.store.list()] == [baseline.id]
    assert "most_stored" in spot.told[0]
    assert keeper.create().changed, "who asks for one gets it"


def test_a_store_that_somebody_locks_holds_up_a_change_for_a_moment_only(spot, waiter, locked, monkeypatch):
    monkeypatch.setattr(module, "_BASELINE_SECONDS", 0.1)
    locked()
    keeper = spot.keeper()
    keeper.before_change(waiter)
    assert ["still being taken" in line for line in waiter.lines] == [True]
    keeper.before_change(waiter)
    assert len(waiter.lines) == 1
    locked.let_go()
    keeper.flush()
    assert keeper.taken.get(timeout=LONG).changed


def test_a_store_that_stays_locked_is_told(spot, waiter, locked, monkeypatch):
    monkeypatch.setattr(module, "_LOCK_SECONDS", 0.1)
    locked()
    keeper = spot.keeper()
    keeper.before_change(waiter)
    assert ["locked" in text for text in spot.told] == [True]


def test_a_workspace_that_vanishes_is_told_and_stops_nobody(spot, waiter):
    keeper = spot.keeper()
    keeper.before_change(waiter)
    shutil.rmtree(spot.root)
    keeper.schedule_snapshot("Bash")
    keeper.flush()
    assert len(spot.told) == 1
    with pytest.raises(ToolyardError):
        keeper.create()


def test_closing_while_a_snapshot_waits_takes_a_bounded_time(spot, locked, monkeypatch):
    monkeypatch.setattr(module, "_CLOSE_SECONDS", 0.2)
    locked()
    keeper = spot.keeper()
    keeper.schedule_snapshot("Write")
    keeper.close()
    locked.let_go()
    until = time.monotonic() + LONG
    while any(each.name == "toolyard-snapshots" for each in threading.enumerate()) and time.monotonic() < until:
        time.sleep(0.01)
    with SnapshotStore(str(spot.store)) as store:
        assert store.list() == []
    with pytest.raises(SystemFault):
        keeper.create()


async def test_two_yards_of_one_workspace_keep_one_history(spot):
    one, two = spot.yard(snapshots={"watch": False}), spot.yard(snapshots={"watch": False})
    for number in range(5):
        await call(one, "Write", file_path="one.txt", content=str(number))
        await call(two, "Write", file_path="two.txt", content=str(number))
        one.snapshots.flush()
        two.snapshots.flush()
    store = one.snapshots.store
    assert store.read("latest", "one.txt") + store.read("latest", "two.txt") == b"44"
    assert [each.id for each in store.list()] == [each.id for each in two.snapshots.store.list()]
    assert store.verify().is_intact


@pytest.mark.parametrize("seed", range(3))
def test_no_snapshot_that_was_told_is_lost_when_processes_are_killed(spot, seed):
    chance = random.Random(seed)
    arguments = [sys.executable, "-c", TAKER, str(spot.root), str(spot.store)]
    running = [
        subprocess.Popen([*arguments, name], stdout=subprocess.PIPE, text=True, start_new_session=True)
        for name in ("one", "two")
    ]
    told = []
    try:
        for process in running:
            told += [process.stdout.readline().strip() for _ in range(1 + chance.randrange(5))]
            time.sleep(chance.random() / 20)
            process.send_signal(signal.SIGKILL)
            told += process.stdout.read().split()
    finally:
        for process in running:
            process.kill()
            process.wait(LONG)
            process.stdout.close()
    with SnapshotStore(str(spot.store)) as store:
        whole = {each.id for each in store.list()}
        # The last line may have been cut short by the kill.
        assert [each for each in told if len(each) == 12 and each not in whole] == []
        assert store.verify().is_intact
        store.create(str(spot.root))
