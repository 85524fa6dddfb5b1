"""When snapshots are taken by themselves, and when none is."""

import threading
import time

import pytest

from toolyard.core.errors import ToolError
from toolyard.snapshots import SnapshotStore
from toolyard.snapshots.service import auto_snapshots as module

LONG = 30.0


def reasons(keeper):
    """Of every snapshot, the oldest first."""
    return [each.reason for each in reversed(keeper.store.list())]


def held(keeper, name, path="a.txt"):
    return keeper.store.read(name, path).decode()


def test_nothing_is_opened_or_started_before_something_changes(spot):
    before = set(threading.enumerate())  # those of the test before may be ending
    keeper = spot.keeper()
    keeper.flush()
    assert (set(threading.enumerate()) - before, spot.store.exists()) == (set(), False)
    keeper.close()
    assert not spot.store.exists()


def test_what_was_there_before_the_first_change_is_kept(spot, waiter):
    keeper = spot.keeper()
    keeper.before_change(waiter)
    spot.write("a.txt", "new")
    (first,) = keeper.store.list()
    assert (first.reason, first.agent, held(keeper, first.id), waiter.lines) == (
        "before a change",
        "agent",
        "old",
        [],
    )


def test_a_second_change_waits_for_nothing(spot, waiter, locked):
    keeper = spot.keeper()
    keeper.before_change(waiter)
    locked()
    waiter.is_patient = False
    keeper.before_change(waiter)
    assert waiter.lines == []


def test_a_call_that_others_wait_for_does_not_wait_for_a_snapshot(spot, waiter):
    keeper = spot.keeper()
    waiter.is_patient = False
    with pytest.raises(InterruptedError):
        keeper.before_change(waiter)
    assert not spot.store.exists()


def test_many_changes_make_one_snapshot(spot, waiter):
    keeper = spot.keeper()
    keeper.before_change(waiter)
    for number in range(50):
        spot.write("a.txt", str(number))
        keeper.schedule_snapshot("Write")
    keeper.schedule_snapshot("Edit")
    keeper.flush()
    assert reasons(keeper) == ["before a change", "after Edit, Write"]
    assert held(keeper, "latest") == "49"


def test_a_change_is_taken_without_anybody_asking(spot, waiter):
    keeper = spot.keeper()
    keeper.before_change(waiter)
    keeper.taken.get(timeout=LONG)
    spot.write("a.txt", "new")
    keeper.schedule_snapshot("Write")
    taken = keeper.taken.get(timeout=LONG)
    assert (taken.changed, taken.snapshot.reason, held(keeper, "latest")) == (True, "after Write", "new")


def test_what_never_gets_quiet_is_taken_all_the_same(spot, waiter, monkeypatch):
    monkeypatch.setattr("toolyard.snapshots.service.auto_snapshots.LATEST_SECONDS", 0.3)
    keeper = spot.keeper()
    keeper.before_change(waiter)
    keeper.taken.get(timeout=LONG)
    until = time.monotonic() + LONG
    while keeper.taken.empty() and time.monotonic() < until:
        spot.write("a.txt", str(time.monotonic()))
        keeper.schedule_snapshot("Write")
        time.sleep(0.01)
    assert keeper.taken.get_nowait().snapshot.reason == "after Write"


def test_a_tree_that_is_as_it_was_gets_no_second_snapshot(spot, waiter):
    keeper = spot.keeper()
    first = keeper.create(reason="mine")
    second = keeper.create(reason="again")
    keeper.before_change(waiter)
    keeper.schedule_snapshot("Write")
    keeper.flush()
    assert (first.changed, second.changed, second.snapshot) == (True, False, first.snapshot)
    assert reasons(keeper) == ["mine"]


def test_without_automatic_only_what_is_asked_for_is_taken(spot, waiter):
    keeper = spot.keeper(automatic=False)
    keeper.before_change(waiter)
    keeper.schedule_snapshot("Write")
    keeper.flush()
    assert not spot.store.exists()
    assert keeper.create().snapshot.reason == "on demand"


def test_closing_takes_what_is_pending(spot, waiter):
    keeper = spot.keeper()
    keeper.before_change(waiter)
    spot.write("a.txt", "last")
    keeper.schedule_snapshot("Write")
    keeper.close()
    with SnapshotStore(str(spot.store)) as store:
        assert store.read("latest", "a.txt") == b"last"


def test_whoever_wants_to_is_told_of_each_snapshot_and_harms_nobody(spot):
    keeper, told = spot.keeper(), []

    def fails(_):
        raise RuntimeError("no")

    keeper.on_snapshot(fails)
    keeper.on_snapshot(told.append)
    taken = keeper.create()
    assert told == [taken]
    assert ["RuntimeError: no" in text for text in spot.told] == [True]


def test_what_the_configuration_leaves_out_is_left_out(spot):
    spot.write("big/data.bin", "x")
    spot.write(".toolyard/output/run.txt", "printed")
    keeper = spot.keeper(ignore=["/big/"])
    assert keeper.create().snapshot.counts.files == 1


@pytest.mark.parametrize("limit", [{"most_files": 2}, {"most_bytes": 5}])
def test_a_workspace_that_is_too_large_is_told_once_and_taken_on_demand_alone(spot, waiter, limit):
    for number in range(3):
        spot.write(f"{number}.txt", "xxx")
    keeper = spot.keeper(**limit)
    keeper.before_change(waiter)
    for _ in range(3):
        keeper.schedule_snapshot("Write")
        keeper.flush()
    assert keeper.store.list() == []
    (said,) = spot.told
    assert f"snapshots.{next(iter(limit))}" in said
    assert keeper.notices.pop_all() == [f"[{said}]"]
    assert keeper.notices.pop_all() == []
    assert keeper.create().changed


def test_old_snapshots_go_by_count_and_age(spot, waiter):
    with SnapshotStore(str(spot.store)) as store:
        for number in range(14):
            spot.write("a.txt", str(number))
            store.create(str(spot.root))
    keeper = spot.keeper(keep=3, days=1e-9)
    spot.write("a.txt", "new")
    keeper.schedule_snapshot("Write")
    keeper.flush()
    assert [held(keeper, each.id) for each in keeper.store.list()] == ["new", "13", "12"]


def test_young_snapshots_stay_however_many_there_are(spot):
    with SnapshotStore(str(spot.store)) as store:
        for number in range(14):
            spot.write("a.txt", str(number))
            store.create(str(spot.root))
    keeper = spot.keeper(keep=1)
    spot.write("a.txt", "new")
    keeper.schedule_snapshot("Write")
    keeper.flush()
    assert len(keeper.store.list()) == 15


def test_where_nobody_watches_the_folder_is_looked_at_again_after_a_while(spot, waiter, monkeypatch):
    monkeypatch.setattr(module, "_FRESH_SECONDS", 0.0)
    keeper = spot.keeper()
    keeper.before_change(waiter)
    spot.write("a.txt", "by the user")
    keeper.before_change(waiter)
    assert (reasons(keeper), held(keeper, "latest")) == (["before a change"] * 2, "by the user")


def test_a_snapshot_that_its_caller_gives_up_is_not_taken(spot, locked):
    keeper = spot.keeper()
    locked()
    asked = []

    def check():
        asked.append(True)
        if len(asked) > 3:
            raise ToolError("enough")

    with pytest.raises(ToolError, match="enough"):
        keeper.create(check=check)
    locked.let_go()
    keeper.flush()
    assert keeper.store.list() == []
