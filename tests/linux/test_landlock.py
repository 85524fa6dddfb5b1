"""Landlock: what a restricted thread keeps, and that nobody else loses anything."""

import os
import threading

import pytest

from toolyard.linux import landlock
from toolyard.linux.landlock import READ, HandledAccess, LandlockRule, handled_access, restrict_thread

needs_landlock = pytest.mark.skipif(landlock.abi_version() == 0, reason="this kernel has no Landlock")


def in_thread(work):
    results = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (1, HandledAccess(0x1FFF, 0, 0, 8)),
        (2, HandledAccess(0x3FFF, 0, 0, 8)),
        (3, HandledAccess(0x7FFF, 0, 0, 8)),
        (4, HandledAccess(0x7FFF, 3, 0, 16)),
        (5, HandledAccess(0xFFFF, 3, 0, 16)),
        (6, HandledAccess(0xFFFF, 3, 3, 24)),
        (7, HandledAccess(0xFFFF, 3, 3, 24)),
    ],
)
def test_each_level_takes_away_all_that_it_knows(at, expected):
    assert handled_access(at) == expected


@needs_landlock
def test_a_restricted_thread_reads_beneath_its_rule_and_nowhere_else(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "a").write_text("a")
    (tmp_path / "outside").write_text("b")

    def attempt(path, flags=os.O_RDONLY):
        try:
            os.close(os.open(path, flags))
        except PermissionError:
            return "refused"
        return "opened"

    def work():
        fd = os.open(inside, os.O_PATH)
        restrict_thread([LandlockRule(fd, READ)])
        os.close(fd)
        return [
            attempt(inside / "a"),
            attempt(inside),
            attempt(tmp_path / "outside"),
            attempt(inside / "a", os.O_WRONLY),
            attempt(inside / "new", os.O_WRONLY | os.O_CREAT),
        ]

    assert in_thread(work) == ["opened", "opened", "refused", "refused", "refused"]
    assert (tmp_path / "outside").read_text() == "b", "the thread that asked stays free"


@needs_landlock
@pytest.mark.parametrize("at", range(1, landlock.abi_version() + 1))
def test_every_level_up_to_the_kernels_own_can_be_used(at):
    def work():
        restrict_thread([], abi=at)
        try:
            os.listdir("/")
        except PermissionError:
            return "walled"
        return "open"

    assert in_thread(work) == "walled"


@needs_landlock
def test_a_rule_on_a_closed_descriptor_is_an_error_not_an_open_door():
    def work():
        try:
            restrict_thread([LandlockRule(10**6, READ)])
        except OSError as error:
            return type(error)
        return None

    assert in_thread(work) is OSError
