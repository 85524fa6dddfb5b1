"""What the warden tells of a run, and what it spares when it cleans up after one."""

import os

import pytest

from tests.support.sandbox_suite.kit import Kit, Subject
from toolyard.sandbox.backends.bubblewrap import bubblewrap_sandbox, find_bubblewrap

PROGRAM = find_bubblewrap()

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no bubblewrap")

CHILD = "import subprocess\nsubprocess.Popen(['sleep', '500'])\n1"
ORPHAN = (
    "import os\nif os.fork() == 0:\n if os.fork() == 0: os.setsid(); os.execvp('sleep', ['sleep', '501'])\n"
    " os._exit(0)\nos.wait()\n1"
)


@pytest.fixture
def kit(tmp_path):
    with Kit(Subject(lambda: bubblewrap_sandbox(PROGRAM), ""), str(tmp_path)) as kit:
        yield kit


def test_a_folder_is_told_by_a_few_bytes(kit):
    """The descriptor that it is told by is open to the command."""
    box = kit.open()
    assert box.command("printf /told; printf /told >&3; trap - EXIT").outcome.folder == "/told"
    assert box.command("head -c 100000 /dev/zero | tr '\\0' x >&3").outcome.folder == ""


@pytest.mark.parametrize("code", [CHILD, ORPHAN], ids=["a child", "an orphan"])
def test_what_code_leaves_behind_is_counted(kit, code):
    """So it is ended before the run counts as done."""
    ran = kit.open().python(code)
    assert (ran.value, ran.outcome.leftover_processes) == ("1", 1)


def test_a_session_that_waits_is_spared_when_another_run_is_cleaned_up_after(kit):
    box = kit.open()
    box.python("x = 20", session="a")
    assert box.command("setsid sleep 502 & echo done").outcome.leftover_processes >= 1
    assert box.python("x", session="a").value == "20"


def test_what_a_run_makes_can_be_read_by_all_whatever_the_servers_umask(kit):
    before = os.umask(0o077)
    try:
        box = kit.open()
    finally:
        os.umask(before)
    assert (box.command("umask").text, box.python("import os\noct(os.umask(0))").value) == ("0022\n", "'0o22'")
