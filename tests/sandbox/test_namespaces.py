"""The conformance suite on namespaces of our own, without bubblewrap."""

import os

import pytest

from toolyard.kernel import landlock
from toolyard.sandbox.bubblewrap import bubblewrap, find_bubblewrap
from toolyard.sandbox.namespaces import find_unshare, namespaces
from toolyard.sandbox.spec import Mount
from toolyard.testing.sandboxing import Kit, Subject, refusal
from toolyard.testing.sandboxing_broker import Brokered
from toolyard.testing.sandboxing_endings import Leftovers, Limits, Losing
from toolyard.testing.sandboxing_runs import Runs, Sessions
from toolyard.testing.sandboxing_walls import Files, Network, Warden

PROGRAM = find_unshare()
RECIPE = "from toolyard.sandbox.namespaces import *; sandbox = namespaces(find_unshare())"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(PROGRAM is None, reason="there is no unshare")]


@pytest.fixture
def kit(tmp_path):
    with Kit(Subject(lambda: namespaces(PROGRAM), RECIPE), str(tmp_path)) as kit:
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


def test_root_keeps_no_capability(kit):
    status = kit.open().command("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status").text
    values = dict(line.split(":\t") for line in status.splitlines())
    assert {values[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (values["NoNewPrivs"], values["Seccomp"]) == ("1", "2")


@pytest.mark.skipif(landlock.level() == 0, reason="this kernel has no Landlock")
def test_landlock_stands_behind_the_mounts(kit):
    """Nothing else keeps a process from writing what the kernel says about itself."""
    box = kit.open()
    write = "try: open('/proc/self/comm', 'w').write('x'); print('written')\nexcept PermissionError: print('refused')"
    assert box.python(write).text == "refused\n"  # in the worker that was there before the walls
    assert box.python(write, session="a").text == "refused\n"
    assert box.command("( echo x > /proc/self/comm ) 2>/dev/null && echo written || echo refused").text == "refused\n"


def test_runs_that_the_warden_started_cannot_look_into_it(kit):
    """They share its Landlock domain, so that this wall does not stand between them."""
    box = kit.open()
    look = (
        "for part in mem environ maps auxv; do ( : < /proc/1/$part ) && echo $part; done; readlink /proc/1/{cwd,fd/*}"
    )
    assert box.command(f"({look}) 2>/dev/null; true").out == b""
    box.python("1")  # takes the worker that was there before the walls
    ran = box.python(f"import subprocess\nsubprocess.run(['bash', '-c', {look!r}], capture_output=True).stdout")
    assert ran.value == "b''"


def test_what_the_view_is_built_of_is_mounted_read_only(kit):
    """Landlock refuses most of these writes too; the mounts hold where a kernel has none."""
    shown = kit.open().command("""awk '{split($6, o, ","); print $5, o[1]}' /proc/self/mountinfo""").text
    rights = dict(line.rsplit(" ", 1) for line in shown.splitlines())
    of_the_kernel = [path for path in ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq") if os.path.exists(path)]
    built = ["/", "/dev", "/usr", *of_the_kernel]
    assert {path: rights.get(path) for path in built} == dict.fromkeys(built, "ro")
    assert rights[kit.workspace] == "rw"


def test_it_shares_no_namespace_with_the_host(kit):
    names = ("ipc", "mnt", "net", "pid", "user", "uts")
    seen = kit.open().command(f"readlink /proc/self/ns/{{{','.join(names)}}}").text.split()
    assert len(seen) == len(names)
    assert set(seen) & {os.readlink(f"/proc/self/ns/{name}") for name in names} == set()


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
    with Kit(Subject(lambda: bubblewrap(find_bubblewrap()), ""), str(tmp_path / "other")) as other:
        other.workspace = kit.workspace
        theirs = other.open(mounts=mounts, hidden=hidden).command(show)
    # Single files of /etc are copies in the read-only root there, and mounts here.
    assert [line for line in ours.text.splitlines() if not _is_mounted_setting(line)] == theirs.text.splitlines()


def _is_mounted_setting(line):
    path = line.partition(" ")[0]
    return path.startswith("/etc/") and os.path.isfile(path)
