"""Watching the disk during a run, on a small real disk: what fills it is ended, what merely looks so is not."""

import contextlib
import os
import statistics
import subprocess
import threading
import time

import pytest

from tests.support.descriptors import count_open
from toolyard.sandbox.limits import disk_usage
from toolyard.sandbox.process import watches
from toolyard.sandbox.process.watches import DiskWatch

MIB = 1024 * 1024
NOBODY = 65534
DISK_MIB, LIMIT_MIB, RESERVE_MIB = 32, 8, 4
WROTE_TOO_MUCH = f"it wrote more than {LIMIT_MIB} MiB to the disk"
ALMOST_FULL = f"the disk is almost full: less than {RESERVE_MIB} MiB is free"
MOST_TICKS = 300


@pytest.fixture(scope="module")
def mounted(tmp_path_factory):
    """A disk of some MiB, which only root can mount."""
    folder = tmp_path_factory.mktemp("disk")
    options = f"size={DISK_MIB}m,nr_inodes=20000,mode=777"
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def small_disk(mounted):
    """Two folders on it: the run's own, and that of somebody else."""
    handles = count_open()
    for name in ("run", "other"):
        (mounted / name).mkdir(mode=0o777)
        (mounted / name).chmod(0o777)
    yield mounted
    subprocess.run(["rm", "-rf", mounted / "run", mounted / "other"], check=True)
    assert count_open() == handles


@contextlib.contextmanager
def watching(small_disk, *, most_files=None, reserve=RESERVE_MIB, **options):
    watch = DiskWatch(
        [str(small_disk / "run")],
        max_bytes=LIMIT_MIB * MIB,
        max_files=most_files,
        reserve_bytes=reserve * MIB,
        **options,
    )
    with contextlib.closing(watch):
        watch.start()
        yield watch


def fill(path, mib):
    with open(path, "wb") as file:
        file.writelines(bytes(MIB) for _ in range(mib))


def let_the_clock_pass():
    """Until what exists now is older than any run that begins later."""
    end = time.monotonic() + watches._CLOCK_SLACK_NS / 1e9 * 2
    while time.monotonic() < end:
        time.sleep(0.001)


def verdict(watch):
    """What the watch says once it has finished counting."""
    for _ in range(MOST_TICKS):
        if (reason := watch.check()) or watch._disks[0]._counter is None:
            return reason
    raise AssertionError("it never finished counting")


def test_a_run_that_writes_too_much_is_ended(small_disk):
    with watching(small_disk) as watch:
        fill(small_disk / "run" / "a", LIMIT_MIB - 1)
        assert verdict(watch) is None
        fill(small_disk / "run" / "b", 2)
        assert verdict(watch) == WROTE_TOO_MUCH


def test_space_that_is_given_back_is_not_counted(small_disk):
    with watching(small_disk) as watch:
        for _ in range(4):
            fill(small_disk / "run" / "a", LIMIT_MIB - 1)
            assert verdict(watch) is None
            os.unlink(small_disk / "run" / "a")
            assert verdict(watch) is None


def test_what_another_program_writes_is_not_the_runs(small_disk):
    with watching(small_disk) as watch:
        fill(small_disk / "run" / "a", 1)
        fill(small_disk / "other" / "a", LIMIT_MIB + 2)
        assert verdict(watch) is None
        fill(small_disk / "run" / "b", LIMIT_MIB)
        assert verdict(watch) == WROTE_TOO_MUCH, "and it does not cover for the run either"


def test_space_that_another_program_frees_does_not_hide_the_run(small_disk):
    fill(small_disk / "other" / "a", 12)
    with watching(small_disk) as watch:
        os.unlink(small_disk / "other" / "a")
        assert verdict(watch) is None
        fill(small_disk / "run" / "a", LIMIT_MIB + 1)
        assert verdict(watch) == WROTE_TOO_MUCH


def test_below_the_reserve_the_run_is_ended_whoever_wrote(small_disk):
    with watching(small_disk) as watch:
        fill(small_disk / "other" / "a", DISK_MIB - RESERVE_MIB + 1)
        assert verdict(watch) == ALMOST_FULL


def test_a_run_that_writes_nothing_survives_a_disk_that_was_full_before(small_disk):
    fill(small_disk / "other" / "a", DISK_MIB - RESERVE_MIB + 1)
    with watching(small_disk) as watch:
        assert verdict(watch) is None
        fill(small_disk / "run" / "a", 2)
        assert verdict(watch) == ALMOST_FULL


def test_a_file_with_holes_costs_nothing(small_disk):
    with watching(small_disk) as watch:
        with open(small_disk / "run" / "holes", "wb") as file:
            file.truncate(1024 * MIB)
        fill(small_disk / "other" / "a", LIMIT_MIB + 1)
        assert verdict(watch) is None


def test_a_file_with_many_names_counts_once(small_disk):
    with watching(small_disk) as watch:
        fill(small_disk / "run" / "a", LIMIT_MIB // 2)
        for number in range(10):
            os.link(small_disk / "run" / "a", small_disk / "run" / f"name{number}")
        fill(small_disk / "other" / "a", LIMIT_MIB)
        assert verdict(watch) is None


def test_files_of_before_the_run_are_not_counted(small_disk):
    fill(small_disk / "run" / "old", LIMIT_MIB + 1)
    let_the_clock_pass()
    with watching(small_disk) as watch:
        fill(small_disk / "other" / "a", LIMIT_MIB + 1)
        assert verdict(watch) is None


def test_a_file_that_is_dated_back_is_counted(small_disk):
    with watching(small_disk) as watch:
        fill(small_disk / "run" / "a", LIMIT_MIB + 1)
        os.utime(small_disk / "run" / "a", (0, 0))
        assert verdict(watch) == WROTE_TOO_MUCH


def test_links_are_not_followed(small_disk):
    fill(small_disk / "other" / "a", LIMIT_MIB + 1)
    with watching(small_disk) as watch:
        os.symlink(small_disk / "other", small_disk / "run" / "folder")
        os.symlink(small_disk / "other" / "a", small_disk / "run" / "file")
        os.symlink(".", small_disk / "run" / "circle")
        fill(small_disk / "other" / "b", LIMIT_MIB + 1)
        assert verdict(watch) is None


def test_many_small_files_are_counted_by_the_blocks_they_take(small_disk):
    with watching(small_disk) as watch:
        for number in range(LIMIT_MIB * 256 + 10):  # a byte each, a page each
            with open(small_disk / "run" / str(number), "wb") as file:
                file.write(b"x")
        assert verdict(watch) == WROTE_TOO_MUCH


def test_too_many_files_are_too_much_even_when_they_are_empty(small_disk):
    with watching(small_disk, most_files=100) as watch:
        for number in range(200):
            (small_disk / "other" / str(number)).touch()
        assert verdict(watch) is None
        for number in range(95):
            (small_disk / "run" / str(number)).touch()
        assert verdict(watch) is None
        for number in range(95, 200):
            (small_disk / "run" / str(number)).touch()
        assert verdict(watch) == "it made or changed more than 100 files"


def test_an_open_file_without_a_name_is_found_in_the_runs_processes(small_disk):
    pids = [os.getpid(), 999_999_999]
    path = small_disk / "run" / "a"
    with watching(small_disk, processes=lambda: pids) as watch, open(path, "wb", buffering=0) as file:
        os.unlink(path)
        file.write(bytes((LIMIT_MIB - 1) * MIB))
        fill(small_disk / "other" / "a", 2)
        assert verdict(watch) is None
        file.write(bytes(2 * MIB))
        fill(small_disk / "other" / "b", 3)
        assert verdict(watch) == WROTE_TOO_MUCH


def test_an_open_file_without_a_name_ends_the_run_at_the_reserve_at_the_latest(small_disk):
    with watching(small_disk) as watch, open(small_disk / "run" / "a", "wb", buffering=0) as file:
        os.unlink(small_disk / "run" / "a")
        written = 0
        while not (reason := verdict(watch)):
            file.write(bytes(MIB))
            written += 1
        assert (reason, written) == (ALMOST_FULL, DISK_MIB - RESERVE_MIB + 1)


def test_renaming_back_and_forth_does_not_hide_a_file_for_long(small_disk):
    stop = threading.Event()
    here, there = small_disk / "run" / "here", small_disk / "run" / "there"
    here.mkdir()
    there.mkdir()

    def churn():
        while not stop.is_set():
            os.rename(here / "a", there / "a")
            os.rename(there / "a", here / "a")

    with watching(small_disk) as watch, open(here / "a", "wb", buffering=0) as file:
        thread = threading.Thread(target=churn)
        thread.start()
        try:
            for _ in range(DISK_MIB * 4):
                if reason := watch.check():
                    break
                file.write(bytes(MIB // 4))
        finally:
            stop.set()
            thread.join()
    assert reason in {WROTE_TOO_MUCH, ALMOST_FULL}


def test_files_may_vanish_under_the_count(small_disk):
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            folder = small_disk / "run" / "made"
            folder.mkdir()
            (folder / "file").touch()
            (folder / "file").unlink()
            folder.rmdir()

    fill(small_disk / "run" / "a", 1)
    with watching(small_disk) as watch:
        thread = threading.Thread(target=churn)
        thread.start()
        try:
            for number in range(20):
                fill(small_disk / "other" / str(number), 1)
                assert verdict(watch) is None
        finally:
            stop.set()
            thread.join()


def test_a_tree_too_deep_to_count_is_the_runs_fault(small_disk):
    with watching(small_disk) as watch:
        path = small_disk / "run" / "/".join("d" * (disk_usage._MAX_DEPTH + 2))
        path.mkdir(parents=True)
        fill(path / "a", LIMIT_MIB + 1)
        assert "too deep" in verdict(watch)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user and back")
@pytest.mark.parametrize("closed", ["run/hidden", "run"])
@pytest.mark.parametrize("mode", [0o600, 0o000])
def test_a_folder_that_the_run_closed_to_us_hides_nothing(small_disk, closed, mode):
    (small_disk / "run" / "hidden").mkdir()
    fill(small_disk / "run" / "hidden" / "a", LIMIT_MIB + 1)
    let_the_clock_pass()
    for path in (small_disk / "run", small_disk / "run" / "hidden"):
        os.chown(path, NOBODY, NOBODY)
    for moment in ("before", "during"):
        let_the_clock_pass()
        with watching(small_disk) as watch:
            if moment == "during":
                os.chmod(small_disk / closed, mode)
                fill(small_disk / "other" / "b", LIMIT_MIB + 1)
            else:
                os.chmod(small_disk / closed, mode)
                let_the_clock_pass()
                watch.start()
                fill(small_disk / "other" / "a", LIMIT_MIB + 1)
            os.seteuid(NOBODY)
            try:
                reason = verdict(watch)
            finally:
                os.seteuid(0)
            os.chmod(small_disk / closed, 0o755)
            os.unlink(small_disk / "other" / ("b" if moment == "during" else "a"))
        assert ("too closed" in (reason or "")) == (moment == "during")


def test_counting_is_spread_over_ticks_and_comes_to_an_end(small_disk, monkeypatch):
    monkeypatch.setattr(watches, "_SLICE_SECONDS", 0.0)
    with watching(small_disk) as watch:
        for number in range(1000):
            (small_disk / "run" / str(number)).touch()
        fill(small_disk / "other" / "a", LIMIT_MIB + 1)
        assert watch.check() is None
        assert watch._disks[0]._counter is not None, "more than one slice of work"
        assert verdict(watch) is None
        watch.start()
        fill(small_disk / "other" / "b", LIMIT_MIB + 1)
        watch.check()  # and a watch that is closed in the middle of counting gives its handles back
    monkeypatch.setattr(disk_usage, "_BUDGET_SECONDS", 0.0)
    os.unlink(small_disk / "other" / "a")
    with watching(small_disk) as watch:
        fill(small_disk / "other" / "a", LIMIT_MIB + 1)
        assert "too many" in verdict(watch)


def test_a_look_is_cheap(small_disk):
    with watching(small_disk) as watch:
        taken = []
        for _ in range(500):
            before = time.perf_counter()
            watch.check()
            taken.append(time.perf_counter() - before)
    assert statistics.median(taken) < 0.0005


def test_a_folder_that_is_missing_is_an_error(small_disk):
    watch = DiskWatch(
        [str(small_disk / "run"), str(small_disk / "nowhere")], max_bytes=1, max_files=None, reserve_bytes=0
    )
    with pytest.raises(FileNotFoundError):
        watch.start()
