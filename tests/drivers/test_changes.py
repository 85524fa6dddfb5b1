"""What a run changed, as its last message tells it."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from tests.drivers.scripted import PYTHON, ScriptedDriver, script, variables
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.drivers import changes
from toolyard.drivers.messages import Finished, Status
from toolyard.drivers.options import DriveOptions
from toolyard.drivers.run import CliRun

SECONDS = 40


@pytest.fixture
def ended(tmp_path):
    """Run a script to its end: `ended(["call", ...], ...)`."""
    (tmp_path / "ws").mkdir()

    def run(*steps, **options) -> Finished:
        settings = DriveOptions(
            str(tmp_path / "ws"), program=PYTHON, variables=variables(), state=str(tmp_path / "state"), **options
        )
        attached = script(["connect"], ["list"], *steps, ["over"])
        return asyncio.run(asyncio.wait_for(CliRun(ScriptedDriver(), attached, settings).finish(), SECONDS))

    return run


def test_of_two_runs_in_one_folder_each_tells_what_its_own_agent_changed(tmp_path):
    (tmp_path / "ws").mkdir()

    def run(agent, peer):
        settings = DriveOptions(
            *(str(tmp_path / "ws"),),
            agent=agent,
            program=PYTHON,
            variables=variables(),
            state=str(tmp_path / "state"),
        )
        meet = ["call", "yard_Bash", {"command": f"until [ -e {peer}.txt ]; do sleep 0.05; done"}]
        steps = script(["connect"], ["list"], write(f"{agent}.txt"), meet, ["over"])
        return CliRun(ScriptedDriver(), steps, settings).finish()

    async def both():
        return await asyncio.wait_for(asyncio.gather(run("anna", "bert"), run("bert", "anna")), SECONDS)

    anna, bert = asyncio.run(both())

    assert (anna.changed, bert.changed) == (("anna.txt",), ("bert.txt",))
    assert anna.snapshot
    assert bert.snapshot


def write(path, content="new\n"):
    return ["call", "Write", {"file_path": path, "content": content}]


def test_a_run_tells_which_paths_are_other_than_before_and_how_to_undo_it(ended, tmp_path):
    (tmp_path / "ws" / "a.txt").write_text("old\n")
    (tmp_path / "ws" / "b.txt").write_text("old\n")
    first = ended(write("new/deep/c.txt"), ["call", "Read", {"file_path": "a.txt"}], write("a.txt"))
    assert first.changed == ("a.txt", "new/deep/c.txt")
    second = ended(["call", "Read", {"file_path": "b.txt"}], write("b.txt"))
    assert (second.changed, second.snapshot_before) == (("b.txt",), first.snapshot)
    with Yard.open(YardOptions(str(tmp_path / "ws"), Config(), state_home=str(tmp_path / "state"))) as yard:
        store, root = yard.snapshots.store, yard.snapshots.location.root
        assert store.list(root)[0].id == second.snapshot
        store.restore(first.snapshot_before, root=root)
    assert [(tmp_path / "ws" / name).read_text() for name in ("a.txt", "b.txt")] == ["old\n", "old\n"]
    assert not (tmp_path / "ws" / "new").exists()


def test_a_run_that_changed_nothing_names_no_snapshot_whatever_was_there_before(ended):
    nothing = ((), "", "")
    reading = ["call", "LS", {"path": "."}]
    assert told(ended(reading)) == nothing
    assert ended(write("a.txt")).snapshot
    assert told(ended(reading)) == nothing


def told(last: Finished) -> tuple:
    return last.changed, last.snapshot, last.snapshot_before


def test_what_was_done_before_the_deadline_is_told(ended):
    last = ended(write("a.txt"), ["wait"], timeout=6.0)
    assert (last.status, last.changed) == (Status.TIMED_OUT, ("a.txt",))


def test_no_more_paths_are_told_than_a_message_should_hold(ended, tmp_path, monkeypatch):
    monkeypatch.setattr(changes, "_MAX_PATHS", 3)
    last = ended(*(write(f"{number}.txt") for number in range(5)))
    assert last.changed == ("0.txt", "1.txt", "2.txt")


def test_names_that_cannot_be_sent_are_told_as_snapshots_tell_them(ended, tmp_path):
    made = ["call", "yard_Bash", {"command": "touch $'a\\xff\\nb'"}]
    assert ended(made).changed == ("a\\xff\\nb",)


def test_without_snapshots_nothing_is_known(ended):
    config = Config.model_validate({"snapshots": {"automatic": False}})
    assert told(ended(write("a.txt"), config=config)) == ((), "", "")


def test_the_last_message_does_not_wait_for_ever(ended, monkeypatch):
    def slow(*_):
        time.sleep(3)
        return changes.WorkspaceChanges(("a.txt",))

    monkeypatch.setattr(changes, "_READ_TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr(changes, "_read_changes", slow)
    assert told(ended(write("a.txt"))) == ((), "", "")


def test_a_store_that_cannot_be_read_does_not_fail_the_run(ended, tmp_path, monkeypatch):
    def broken(*_):
        raise OSError(os.strerror(5))

    monkeypatch.setattr(changes, "SnapshotStore", broken)
    last = ended(write("a.txt"))
    assert (last.status, last.changed) == (Status.SUCCEEDED, ())
