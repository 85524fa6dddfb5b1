"""The conformance suite on namespaces of our own, without bubblewrap."""

import os

import pytest

from tests.support.sandbox_suite.broker import Brokered
from tests.support.sandbox_suite.changes import Changes
from tests.support.sandbox_suite.endings import Leftovers, Limits, Losing
from tests.support.sandbox_suite.kit import Kit, Subject, refusal
from tests.support.sandbox_suite.namespaces import OwnNamespaces
from tests.support.sandbox_suite.restrictions import Files, Network, Warden
from tests.support.sandbox_suite.runs import Runs, Sessions
from toolyard.sandbox.backends.bubblewrap import bubblewrap_sandbox, find_bubblewrap
from toolyard.sandbox.backends.namespaces import find_unshare, namespaces_sandbox
from toolyard.sandbox.spec import Mount

PROGRAM = find_unshare()
RECIPE = "from toolyard.sandbox.backends.namespaces import *; sandbox = namespaces_sandbox(find_unshare())"

pytestmark = [
    pytest.mark.destructive,
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="there is no unshare"),
]


@pytest.fixture
def kit(tmp_path):
    with Kit(Subject(lambda: namespaces_sandbox(PROGRAM), RECIPE), str(tmp_path)) as kit:
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


class TestOwnNamespaces(OwnNamespaces):
    pass


def test_root_keeps_no_capability(kit):
    status = kit.open().command("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status").text
    values = dict(line.split(":\t") for line in status.splitlines())
    assert {values[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (values["NoNewPrivs"], values["Seccomp"]) == ("1", "2")


def test_a_link_on_the_way_to_a_mount_is_refused(kit):
    """The mount would land where the link leads, and the place it was meant for stay writable."""
    kit.file("workspace/real/tools/kept", "")
    os.symlink("real", f"{kit.workspace}/link")
    said = refusal(lambda: kit.open(mounts=(Mount(f"{kit.workspace}/link/tools"),)))
    assert f"{kit.workspace}/link/tools" in said


@pytest.mark.skipif(find_bubblewrap() is None, reason="there is no bubblewrap")
def test_files_look_as_they_do_in_bubblewrap(kit, tmp_path):
    hidden = (kit.file("workspace/.env", ""), os.path.dirname(kit.file("workspace/private/key", "")))
    mounts = (Mount(kit.outside, writable=True), Mount(os.path.dirname(kit.file("workspace/tools/kept", ""))))
    # Each mount with its rights, and what lies in the root, /dev and /etc.
    show = (
        """awk '{split($6, o, ","); print $5, o[1], $6 ~ /nosuid/, $6 ~ /nodev/}' /proc/self/mountinfo | sort -u;"""
        "ls -ld / /tmp $HOME /dev/shm | awk '{print $1, $3, $4, $NF}'; ls / /etc; ls /dev | grep -vx core;"
        "id; uname -n; cat /etc/passwd"
    )
    ours = kit.open(mounts=mounts, hidden=hidden).command(show)
    (tmp_path / "other").mkdir()
    with Kit(Subject(lambda: bubblewrap_sandbox(find_bubblewrap()), ""), str(tmp_path / "other")) as other:
        other.workspace = kit.workspace
        theirs = other.open(mounts=mounts, hidden=hidden).command(show)
    # Single files of /etc are copies in the read-only root there, and mounts here.
    assert [line for line in ours.text.splitlines() if not _is_mounted_setting(line)] == theirs.text.splitlines()


def _is_mounted_setting(line):
    path = line.partition(" ")[0]
    return path.startswith("/etc/") and os.path.isfile(path)
