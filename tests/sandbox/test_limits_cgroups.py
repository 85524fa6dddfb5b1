"""Control groups on the real kernel, where they can be made, and version 2's rules on a small model of its files."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from toolyard.core.errors import SystemFault
from toolyard.sandbox.limits import cgroup_paths, cgroups
from toolyard.sandbox.limits.cgroup_paths import CgroupLocation
from toolyard.sandbox.limits.cgroups import Cgroup

MIB = 1024 * 1024
AMPLE = {"memory_bytes": 256 * MIB, "processes": 50}

HOG = "data = [bytearray(1024 * 1024) for _ in range(256)]; print('ate it all')"
# Every process of it forks for twenty seconds, or until it is killed.
BOMB = """
import os, time
end = time.monotonic() + 20
while time.monotonic() < end:
    try:
        os.fork()
    except OSError:
        time.sleep(0.001)
"""
SLEEPER = "import time; print('up', flush=True); time.sleep(60)"
OWNER = """
import subprocess, sys
from toolyard.sandbox.limits.cgroups import Cgroup
group = Cgroup.create(memory_bytes=2**28, processes=50, name="killed")
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
group.add(child.pid)
print(child.pid, *(part.folder for part in group._groups), flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def group_of(**limits):
    group = Cgroup.create(**{**AMPLE, "name": "test", **limits})
    if group is None:
        pytest.skip("no control group is writable here")
    try:
        yield group
    finally:
        assert group.close()


@contextlib.contextmanager
def inside(group, code):
    """A Python that is in the group before its code starts."""
    waiting = "import sys; sys.stdin.readline(); exec(sys.argv[1])"
    process = subprocess.Popen(
        [sys.executable, "-c", waiting, code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        try:
            group.add(process.pid)
            process.stdin.write("go\n")
            process.stdin.flush()
            yield process
        finally:
            process.kill()


def folders(group):
    return [part.folder for part in group._groups]


def test_a_memory_hog_is_killed_and_told_of_once():
    with group_of(memory_bytes=64 * MIB) as group:
        if "memory" not in group.enforced_limits:
            pytest.skip("the memory controller is not writable here")
        assert not group.was_out_of_memory()
        with inside(group, HOG) as hog:
            assert (hog.stdout.read(), hog.wait(30)) == ("", -signal.SIGKILL)
        assert group.was_out_of_memory()
        assert not group.was_out_of_memory(), "the kill was told of already"
        assert group.out_of_memory_kills() == 1
        with inside(group, "print('fine')") as modest:
            assert modest.stdout.read() == "fine\n", "the group serves the next run"
        assert not group.was_out_of_memory()


def test_a_fork_bomb_stays_within_its_bound_and_close_ends_it():
    with group_of(processes=30) as group:
        if "processes" not in group.enforced_limits:
            pytest.skip("the pids controller is not writable here")
        with inside(group, BOMB):
            most = 0
            end = time.monotonic() + 30
            while most < 30 and time.monotonic() < end:
                most = max(most, len(group.processes()))
            assert most == 30, "it reached its bound and no more"
            before = time.monotonic()
            assert group.close()
            assert time.monotonic() - before < 1.5
    assert group.processes() == []
    assert not any(os.path.exists(folder) for folder in folders(group))


def test_processes_are_listed_and_killed_when_the_group_is_closed():
    with group_of() as group:
        assert group.processes() == []
        with inside(group, SLEEPER) as sleeper:
            assert sleeper.stdout.readline() == "up\n"
            assert group.processes() == [sleeper.pid]
            assert group.close()
            assert sleeper.wait(10) == -signal.SIGKILL
        assert not any(os.path.exists(folder) for folder in folders(group))
        assert group.close(), "closing again is harmless"


def test_adding_a_process_that_is_gone_says_so():
    with group_of() as group:
        done = subprocess.Popen([sys.executable, "-c", ""])
        done.wait()
        with pytest.raises(SystemFault, match="could not be put into its control group"):
            group.add(done.pid)


def test_groups_below_the_group_are_removed_with_it():
    with group_of() as group:
        for folder in folders(group):
            os.makedirs(f"{folder}/a/b")
        assert group.close()
        assert not any(os.path.exists(folder) for folder in folders(group))


@contextlib.contextmanager
def owner():
    """A server with a group of its own and a process in it: itself, that process, and the group's folders."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", OWNER], text=True, **pipes) as server:
        try:
            child, *made = server.stdout.readline().split()
            yield server, int(child), made
        finally:
            server.kill()


def test_groups_of_a_killed_server_are_swept_and_those_of_a_living_one_are_not():
    with group_of() as ours:
        with owner() as (server, child, dead), owner() as (_, _, living):
            server.kill()
            server.wait()
            assert all(map(os.path.exists, dead)), "nobody was left to remove it"
            with group_of() as other:
                assert not any(map(os.path.exists, dead))
                assert not alive(child), "what it left running is gone too"
                assert all(map(os.path.exists, (*living, *folders(ours), *folders(other))))
        with group_of():
            assert not any(map(os.path.exists, living))


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_groups_with_other_names_are_left_alone():
    began = cgroups._start_time("self")
    space = cgroups._pid_namespace()
    kept = [
        "toolyard",
        "toolyard-server",
        f"toolyard-{space}-{os.getpid()}-{began}-x-1",  # ours
        f"toolyard-{space + 1}-999999999-1-x-1",  # of another pid namespace
        f"toolyard-{space}-1-1-x",  # incomplete
        "docker-999999999-1-x-1",
    ]
    assert not [name for name in kept if cgroups._is_stale(name)]
    gone = [f"toolyard-{space}-999999999-1-x-1", f"toolyard-{space}-{os.getpid()}-{began + 1}-x-1"]
    assert [name for name in gone if cgroups._is_stale(name)] == gone


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user")
def test_an_ordinary_user_gets_none_quickly():
    code = """
import encodings.ascii, os, time  # the library may be out of this user's reach
from toolyard.sandbox.limits.cgroups import Cgroup
os.setuid(65534)
before = time.monotonic()
print(Cgroup.create(memory_bytes=2**26, processes=10, name="x"), time.monotonic() - before < 0.5)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert said.stdout == "None True\n"


def test_a_name_that_is_no_plain_word_is_refused():
    for name in ("", "../x", "a-b", "x" * 65, "a\n"):
        with pytest.raises(ValueError, match="group's name"):
            Cgroup.create(**AMPLE, name=name)


class Model:
    """Version 2's files as plain files, with the rules that matter: what is missing, and who may hold processes."""

    def __init__(self, root, controllers="cpu memory pids"):
        self.root = root
        self.real_mkdir = os.mkdir
        self.mkdir(root, controllers)

    def mkdir(self, folder, controllers=None):
        parent = Path(folder).parent
        given = controllers if controllers is not None else (parent / "cgroup.subtree_control").read_text()
        self.real_mkdir(folder)
        files = {"cgroup.controllers": given, "cgroup.subtree_control": "", "cgroup.procs": ""}
        if "memory" in given:
            files |= {"memory.max": "max", "memory.swap.max": "max", "memory.events": "oom 2\noom_kill 0\n"}
        if "pids" in given:
            files |= {"pids.max": "max"}
        for name, text in files.items():
            Path(folder, name).write_text(text)

    def write(self, path, text):
        folder, name = os.path.split(path)
        if not os.path.exists(path):
            raise FileNotFoundError(path)
        if name == "cgroup.subtree_control":
            if Path(folder, "cgroup.procs").read_text():
                raise OSError(errno.EBUSY, "busy")
            text = " ".join(word.removeprefix("+") for word in text.split())
        if name == "cgroup.procs":
            for procs in Path(self.root).rglob("cgroup.procs"):
                procs.write_text(procs.read_text().replace(f"{text}\n", ""))
            text += "\n"
        Path(path).write_text(text)


@pytest.fixture
def model(tmp_path, monkeypatch):
    made = Model(tmp_path / "fs")
    monkeypatch.setattr(cgroup_paths, "write_control_file", made.write)
    monkeypatch.setattr(cgroups, "write_control_file", made.write)
    monkeypatch.setattr(os, "mkdir", lambda path, mode=0o777: made.mkdir(path))
    return made


def place(model, controllers=("memory", "pids")):
    return CgroupLocation(str(model.root), frozenset(controllers), unified=True)


def test_version_2_steps_aside_into_a_leaf_before_it_limits_children(model):
    (model.root / "cgroup.procs").write_text(f"{os.getpid()}\n")
    group = Cgroup.create(memory_bytes=123, processes=7, name="x", locations=[place(model)])
    assert group is not None
    assert group.enforced_limits == {"memory", "processes"}
    assert (model.root / "cgroup.procs").read_text() == ""
    assert (model.root / "toolyard-server" / "cgroup.procs").read_text() == f"{os.getpid()}\n"
    [folder] = map(Path, folders(group))
    limits = {name: (folder / name).read_text() for name in ("memory.max", "memory.swap.max", "pids.max")}
    assert limits == {"memory.max": "123", "memory.swap.max": "0", "pids.max": "7"}
    assert not group.was_out_of_memory()
    (folder / "memory.events").write_text("oom 3\noom_kill 1\n")
    assert group.was_out_of_memory()
    again = Cgroup.create(memory_bytes=123, processes=7, name="x", locations=[place(model)])
    assert again is not None
    assert folders(again) != folders(group)


def test_version_2_moves_nobody_else(model):
    text = f"{os.getpid()}\n1\n"
    (model.root / "cgroup.procs").write_text(text)
    assert Cgroup.create(**AMPLE, name="x", locations=[place(model)]) is None
    assert (model.root / "cgroup.procs").read_text() == text
    assert not (model.root / "toolyard-server").exists()


def test_a_hierarchy_with_one_controller_holds_one_limit(model):
    group = Cgroup.create(**AMPLE, name="x", locations=[place(model, ["pids"])])
    assert group is not None
    assert group.enforced_limits == {"processes"}


MOUNTS = """\
25 30 0:23 / {root}/unified rw - cgroup2 cgroup2 rw
26 30 0:24 / {root}/memory\\040here rw,nosuid - cgroup cgroup rw,memory
27 30 0:25 /docker/abc {root}/pids rw - cgroup cgroup rw,pids
28 30 0:26 / {root}/tmp rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ("4:memory:/a/b\n0::/\n", [("memory here/a/b", {"memory"}, False)]),
        ("4:memory:/\n8:pids:/docker/abc\n", [("memory here", {"memory"}, False), ("pids", {"pids"}, False)]),
        ("8:pids:/docker/abc/sub\n", [("pids/sub", {"pids"}, False)]),
        ("8:pids:/docker/other\n", []),
        ("8:pids:/docker/abcd\n", []),
        ("4:memory:/../outside\n", []),
        ("1:cpu:/\n2:name=systemd:/\n", []),
        ("0::/mine\n", [("unified/mine", {"memory", "pids"}, True)]),
        ("0::/mine/toolyard-server\n", [("unified/mine", {"memory", "pids"}, True)]),
    ],
)
def test_our_own_group_is_found_in_the_kernels_tables(tmp_path, groups, expected):
    (tmp_path / "unified" / "mine").mkdir(parents=True)
    (tmp_path / "unified" / "mine" / "cgroup.controllers").write_text("cpu memory pids\n")
    (tmp_path / "unified" / "cgroup.controllers").write_text("hugetlb\n")
    (tmp_path / "mountinfo").write_text(MOUNTS.format(root=tmp_path))
    (tmp_path / "cgroup").write_text(groups)
    found = [
        (os.path.relpath(place.folder, tmp_path), set(place.controllers), place.unified)
        for place in cgroup_paths.find_cgroups(str(tmp_path))
    ]
    assert found == expected


def test_nothing_is_found_where_the_tables_are_missing(tmp_path):
    assert cgroup_paths.find_cgroups(str(tmp_path)) == ()
