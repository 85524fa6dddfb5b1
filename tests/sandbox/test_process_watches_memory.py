"""Shared memory has a bound also where no control group counts it."""

import pytest

from tests.support.sandbox_suite.kit import Kit, Subject, tight
from toolyard.core.limits import MIB
from toolyard.sandbox.backends.bubblewrap import bubblewrap_sandbox, find_bubblewrap
from toolyard.sandbox.process import sandbox
from toolyard.sandbox.spec import RunEnding

PROGRAM = find_bubblewrap()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no bubblewrap")

FILL = """
import mmap, time
shared = mmap.mmap(-1, {size})
for at in range(0, {size}, 4096): shared[at] = 1
{then}
"""


@pytest.fixture
def box(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox.Cgroup, "create", lambda **_: None)
    with Kit(Subject(lambda: bubblewrap_sandbox(PROGRAM), ""), str(tmp_path)) as kit:
        yield kit.open(limits=tight(memory_bytes=128 * MIB))


def test_a_process_that_holds_too_much_shared_memory_is_ended_and_that_is_told(box):
    ran = box.python(FILL.format(size=300 * MIB, then="time.sleep(20)"))
    assert (ran.outcome.ending, ran.outcome.exit_code) == (RunEnding.MEMORY, 137)
    assert ran.seconds < 15
    assert box.command("echo next").text == "next\n"


def test_so_is_one_that_a_thread_of_a_child_has_started(box):
    inner = FILL.format(size=300 * MIB, then="time.sleep(20)")
    start = f"import subprocess, sys, threading\ncode = {inner!r}\ncodes = []\n"
    start += "def work(): codes.append(subprocess.run([sys.executable, '-c', code]).returncode)\n"
    start += "thread = threading.Thread(target=work); thread.start(); thread.join(); codes"
    assert box.python(start).value == "[-9]"


def test_what_a_process_may_have_it_may_share(box):
    ran = box.python(FILL.format(size=100 * MIB, then="time.sleep(0.5)\n'kept'"))
    assert ran.value == "'kept'"


def test_other_runs_go_on(box):
    kept = box.begin("echo begun; until [ -e go ]; do sleep 0.02; done; echo done")
    assert box.python(FILL.format(size=300 * MIB, then="time.sleep(20)")).outcome.ending is RunEnding.MEMORY
    assert box.command("touch go").code == 0
    assert kept.result().text == "begun\ndone\n"
