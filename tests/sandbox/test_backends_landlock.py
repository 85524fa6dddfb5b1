"""The conformance suite on Landlock and seccomp alone, and what is particular to them."""

import os
import subprocess

import pytest

from tests.support.sandbox_suite.broker import Brokered
from tests.support.sandbox_suite.changes import Changes
from tests.support.sandbox_suite.endings import Leftovers, Limits, Losing
from tests.support.sandbox_suite.kit import GONE_SECONDS, Kit, Subject, refusal, within
from tests.support.sandbox_suite.restrictions import Files, Network, Warden
from tests.support.sandbox_suite.runs import Runs, Sessions
from toolyard.linux import landlock
from toolyard.sandbox.backends.landlock import landlock_sandbox, unsupported_reason
from toolyard.sandbox.spec import Mount

RECIPE = "from toolyard.sandbox.backends.landlock import landlock_sandbox; sandbox = landlock_sandbox()"

pytestmark = [
    pytest.mark.destructive,
    pytest.mark.slow,
    pytest.mark.skipif(bool(unsupported_reason()), reason=unsupported_reason()),
]


@pytest.fixture
def kit(tmp_path):
    with Kit(Subject(landlock_sandbox, RECIPE), str(tmp_path)) as kit:
        yield kit


class TestRuns(Runs):
    pass


class TestSessions(Sessions):
    pass


class TestFiles(Files):
    pass


class TestNetwork(Network):
    pass


class TestWarden(Warden):
    pass


class TestLimits(Limits):
    pass


class TestLeftovers(Leftovers):
    pass


class TestLosing(Losing):
    pass


class TestBrokered(Brokered):
    pass


class TestChanges(Changes):
    pass


def private_folder(box):
    return os.path.dirname(box.command("echo $HOME").text.strip())


def test_the_private_folder_goes_with_the_sandbox(kit):
    box = kit.open()
    folder = private_folder(box)
    box.command("mkdir -p $HOME/a/b && echo x > $HOME/a/b/c && chmod 500 $HOME/a")
    assert os.stat(folder).st_mode & 0o777 == 0o700
    box.sandbox.close()
    assert not os.path.exists(folder)


def test_the_private_folder_goes_when_the_warden_is_killed(kit):
    box = kit.open()
    folder = private_folder(box)
    kit.lose(box)
    box.sandbox.close()
    assert not os.path.exists(folder)


def test_the_private_folder_goes_when_the_host_is_killed(kit):
    with kit.host("echo $HOME > where; echo up; sleep 100") as host:
        with open(f"{kit.workspace}/where") as file:
            folder = os.path.dirname(file.read().strip())
        assert os.path.isdir(folder)
        host.kill()
        assert within(GONE_SECONDS, lambda: not os.path.exists(folder))


def test_a_kernel_that_cannot_scope_signals_is_refused(kit, monkeypatch):
    monkeypatch.setattr(landlock, "abi_version", lambda: 5)
    assert "Linux 6.12" in refusal(kit.open)


def test_a_link_beside_a_protected_part_opens_nothing(kit):
    """Beside such a part every entry gets a rule of its own, and one for a link would be for what it leads to."""
    kit.file("workspace/tools/kept", "")
    os.symlink(kit.outside, f"{kit.workspace}/link")
    box = kit.open(mounts=(Mount(f"{kit.workspace}/tools"),))
    assert box.command("cat link/secret").out == b""


def test_beside_a_protected_part_nothing_new_can_be_made(kit):
    """The price of a part with fewer rights, in a tier that can only add rights."""
    kit.file("workspace/tools/kept", "")
    kit.file("workspace/src/file", "")
    box = kit.open(mounts=(Mount(f"{kit.workspace}/tools"),))
    assert box.command("echo x > src/new; echo x > new; cat src/new").text == "x\n"
    assert sorted(os.listdir(kit.workspace)) == ["src", "tools"]


def test_root_keeps_no_capability(kit):
    status = "import ctypes\nheld = (ctypes.c_uint32 * 6)()\nheader = (ctypes.c_uint32 * 2)(0x20080522, 0)\n"
    ran = kit.open().python(f"{status}ctypes.CDLL(None).capget(header, held)\nlist(held)")
    assert ran.value == "[0, 0, 0, 0, 0, 0]"


def test_how_other_processes_of_the_user_are_scheduled_stays_as_it_is(kit):
    """The user's own programs, Toolyard among them. Root is held back by its lack of capabilities too."""
    with subprocess.Popen(["sleep", "60"]) as victim:
        try:
            code = (
                "import os\n"
                "def tried(call, *given):\n try: call(*given); return True\n except PermissionError: return False\n"
                f"p = {victim.pid}\n"
                "[tried(os.setpriority, os.PRIO_PROCESS, p, 5), tried(os.sched_setaffinity, p, {0}),"
                " tried(os.sched_setscheduler, p, os.SCHED_IDLE, os.sched_param(0)),"
                " tried(os.setpriority, os.PRIO_PGRP, 0, 1), tried(os.sched_setaffinity, 0, os.sched_getaffinity(0)),"
                " tried(os.setpriority, os.PRIO_PROCESS, 0, 5)]"
            )
            assert kit.open().python(code).value == str([False] * 4 + [True] * 2)
        finally:
            victim.kill()
