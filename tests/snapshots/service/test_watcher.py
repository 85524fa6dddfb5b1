"""A folder is watched for what anybody changes in it, within bounds."""

import os
import subprocess
import sys
import threading

import pytest

from toolyard.snapshots import DEFAULT_RULES
from toolyard.snapshots.archive.ignore_files import AcceptedRules
from toolyard.snapshots.service.watcher import Watcher

LONG = 30.0
A_WHILE = 1.5


class Watched:
    def __init__(self, root):
        self.root = root
        self.changed = threading.Event()
        self.told = []
        self._watchers = []

    def start(self, folders=1, rules=DEFAULT_RULES, **options):
        watcher = Watcher(str(self.root), lambda: rules, self.changed.set, self.told.append, **options)
        self._watchers.append(watcher)
        watcher.start(folders)
        assert watcher.started.wait(LONG)
        return watcher

    def heard(self):
        """Whether a change was heard of; forgets it."""
        was_set = self.changed.wait(LONG)
        self.changed.clear()
        return was_set

    def close(self):
        for watcher in self._watchers:
            watcher.close()


@pytest.fixture
def watched(tmp_path):
    (tmp_path / "ws").mkdir()
    made = Watched((tmp_path / "ws").resolve())
    yield made
    made.close()


def test_what_a_program_writes_is_heard(watched):
    watcher = watched.start()
    (watched.root / "a.txt").write_text("a")
    assert watched.heard()
    assert (watcher.is_watching, watched.told) == (True, [])


def test_what_happens_in_a_new_folder_is_heard(watched):
    watched.start()
    (watched.root / "new" / "deeper").mkdir(parents=True)
    assert watched.heard()
    # The folder itself is watched a moment later; until then its making was the news.
    for number in range(100):
        (watched.root / "new" / "deeper" / f"{number}.txt").write_text("a")
        if watched.changed.wait(0.3):
            return
    pytest.fail("nothing was heard")


def test_what_snapshots_leave_out_and_files_that_are_being_written_are_not_heard(watched):
    (watched.root / "__pycache__").mkdir()
    (watched.root / ".toolyardignore").write_text("*.txt\n")
    watched.start(accepted=lambda: AcceptedRules({b"": b"*.log\n"}))
    for name in ("__pycache__/a.pyc", "x.log", ".toolyard-tmp-1"):
        (watched.root / name).write_text("a")
    assert not watched.changed.wait(A_WHILE)
    (watched.root / "x.txt").write_text("a")
    assert watched.heard()


def test_links_are_not_followed(watched, tmp_path):
    (tmp_path / "outside").mkdir()
    os.symlink(tmp_path / "outside", watched.root / "out")
    os.symlink("/", watched.root / "everything")
    watched.start(max_folders=5)
    (tmp_path / "outside" / "a.txt").write_text("a")
    assert not watched.changed.wait(A_WHILE)
    assert watched.told == []


@pytest.mark.parametrize("said", [1, 100])
def test_a_tree_that_is_too_large_is_told_once(watched, said):
    for number in range(5):
        (watched.root / str(number)).mkdir()
    watcher = watched.start(said, max_folders=5)
    (watched.root / "a.txt").write_text("a")
    assert (watcher.is_watching, len(watched.told)) == (False, 1)
    assert "more than 5 folders" in watched.told[0]


def test_no_watches_left_is_told_once(watched, monkeypatch):
    def exhausted(*_, **__):
        raise OSError(28, "OS file watch limit reached.")

    monkeypatch.setattr("watchfiles.watch", exhausted)
    watcher = watched.start()
    assert (watcher.is_watching, ["watch limit" in text for text in watched.told]) == (False, [True])


OWN_LIMITS = ("unshare", "--user", "--map-root-user", "sh", "-c")
WITHOUT_WATCHES = """
import sys
from toolyard.snapshots.service.watcher import Watcher

watcher = Watcher(sys.argv[1], list, lambda: None, print)
watcher.start(1)
print(watcher.started.wait(50), watcher.is_watching)
watcher.close()
"""


@pytest.mark.parametrize("limit", ["instances", "watches"])
def test_a_system_without_watches_is_not_taken_for_a_quiet_folder(tmp_path, limit):
    # In a namespace of its own, whose limits are no business of anybody else's.
    script = f'echo 0 > /proc/sys/user/max_inotify_{limit} && echo limited && exec "$@"'
    done = subprocess.run(
        [*OWN_LIMITS, script, "sh", sys.executable, "-c", WITHOUT_WATCHES, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=55,
    )
    if not done.stdout.startswith("limited\n"):
        pytest.skip(f"no limits of our own: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    _, told, state = done.stdout.splitlines()
    assert state == "True False"
    assert "is not watched for changes by other programs" in told


def test_without_the_package_it_is_told_how_to_get_it(watched, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    watcher = watched.start()
    assert (watcher.is_watching, ["toolyard[team]" in text for text in watched.told]) == (False, [True])


def test_a_folder_that_goes_away_ends_the_watch(watched):
    watched.start()
    watched.root.rmdir()
    watched.changed.wait(LONG)
    for thread in threading.enumerate():
        if thread.name == "toolyard-watching":
            thread.join(LONG)
            assert not thread.is_alive()
    assert len(watched.told) == 1


def test_closing_ends_the_thread(watched):
    watcher = watched.start()
    watcher.close()
    assert not any(thread.name == "toolyard-watching" for thread in threading.enumerate())
    watcher.start(1)
    assert not watcher.is_watching
