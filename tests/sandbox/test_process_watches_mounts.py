"""Covers are looked at by one thread for each box, however many runs there are, and only while there are any."""

import threading

import pytest

from toolyard.sandbox.process import watches
from toolyard.sandbox.process.watches import MountWatch

WAIT = 20.0


class Looks:
    def __init__(self):
        self.count, self.threads, self.whole = 0, set(), True
        self.seen, self.lost = threading.Event(), threading.Event()

    def look(self):
        self.count += 1
        self.threads.add(threading.get_ident())
        self.seen.set()
        return self.whole

    def again(self):
        self.seen.clear()
        assert self.seen.wait(WAIT)


@pytest.fixture
def looks():
    return Looks()


@pytest.fixture
def watch(looks, monkeypatch):
    monkeypatch.setattr(watches, "_MOUNT_CHECK_SECONDS", 0.001)
    with MountWatch(looks.look, looks.lost.set) as made:
        yield made


def test_many_runs_have_one_that_looks(watch, looks):
    with watch.while_running(), watch.while_running(), watch.while_running():
        for _ in range(10):
            looks.again()
    assert len(looks.threads) == 1
    assert threading.get_ident() not in looks.threads


def test_nobody_looks_while_nothing_runs(watch, looks):
    with watch.while_running():
        looks.again()
    while watch._run_active.is_set():
        threading.Event().wait(0.001)
    before = looks.count
    assert not threading.Event().wait(0.05)
    assert looks.count == before
    with watch.while_running():
        looks.again()


def test_a_cover_that_is_gone_is_told_once(watch, looks):
    with watch.while_running():
        looks.again()
        looks.whole = False
        assert looks.lost.wait(WAIT)
        watch._thread.join(WAIT)
    assert not watch._thread.is_alive()


def test_a_look_that_takes_long_is_followed_by_a_long_rest(looks, monkeypatch):
    rests = []
    monkeypatch.setattr(watches, "_MOUNT_REST_FACTOR", 1_000_000)
    with MountWatch(looks.look, looks.lost.set) as watch:
        wait = watch._closed.wait
        monkeypatch.setattr(watch._closed, "wait", lambda seconds: rests.append(seconds) or wait(0.001))
        with watch.while_running():
            looks.again()
            looks.again()
    assert rests[-1] > rests[0] == watches._MOUNT_CHECK_SECONDS
