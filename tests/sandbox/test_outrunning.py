"""Runs that fork faster than they can be ended, and boxes that answer nobody: both are over when their time is."""

import pytest

from tests.support.sandbox_suite.kit import LOST_SECONDS, Kit, Subject, within
from toolyard.sandbox.backends.bubblewrap import bubblewrap_sandbox, find_bubblewrap
from toolyard.sandbox.spec import RunEnding

PROGRAM = find_bubblewrap()
SECONDS = 1.0
LATE_SECONDS = 4.0
MANY, SOME = 150, 20
# Each link of a chain makes the next one and ends, in a session of its own: every link is an orphan.
FORKING = """
import os, time
def chain():
    while time.monotonic() < until:
        if os.fork(): os._exit(0)
        os.setsid()
    os._exit(0)
until = time.monotonic() + 20
for _ in range({count}):
    if os.fork() == 0: chain()
"""

pytestmark = [pytest.mark.destructive, pytest.mark.skipif(PROGRAM is None, reason="there is no bubblewrap")]


@pytest.fixture
def kit(tmp_path):
    with Kit(Subject(lambda: bubblewrap_sandbox(PROGRAM), ""), str(tmp_path)) as kit:
        yield kit


def test_chains_of_forks_end_with_the_time_of_their_run(kit):
    box = kit.open()
    ran = box.python(FORKING.format(count=MANY) + "time.sleep(60)", seconds=SECONDS)
    assert ran.outcome.ending is RunEnding.TIMEOUT
    assert ran.seconds < SECONDS + LATE_SECONDS
    assert kit.all_gone()
    assert box.command("echo next").text == "next\n"


def test_chains_of_forks_end_with_the_run_that_began_them(kit):
    box = kit.open()
    ran = box.python(FORKING.format(count=SOME))
    assert ran.outcome.ending is RunEnding.FINISHED
    assert ran.outcome.leftover_processes > 0
    assert kit.all_gone()
    assert box.command("echo next").text == "next\n"


def test_chains_of_forks_end_where_a_session_is_kept_too(kit):
    box = kit.open()
    box.python("x = 20", session="kept")
    ran = box.command(f"python3 - <<'END'\n{FORKING.format(count=MANY)}\nEND\nsleep 60", seconds=SECONDS)
    assert ran.outcome.ending is RunEnding.TIMEOUT
    assert kit.all_gone(LOST_SECONDS)
    assert box.command("echo next").text == "next\n"


def test_nothing_goes_on_in_a_box_that_answers_nobody(kit):
    box = kit.open()
    begun = box.begin("echo up; sleep 60")
    kit.stop(box)
    assert box.command("echo hello", seconds=0.2).outcome.ending is RunEnding.LOST
    assert begun.result().outcome.ending is RunEnding.LOST
    assert within(LOST_SECONDS, lambda: not kit.marked())  # though nobody asks for another run
    again = box.command("echo again")
    assert (again.text, again.outcome.sandbox_is_new) == ("again\n", True)
